// Timing layers and models in rounds.
#include "device/rounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace jcw {
namespace {

// Signed, bounded, and the same on every machine.
std::vector<float> some_image(std::int64_t floats) {
  std::vector<float> image(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(static_cast<int>(i * 37 % 201) - 100) / 64;
  return image;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Time>
void print_round(std::vector<std::unique_ptr<Timed>>& timed, std::size_t first, int round, const Time& time) {
  std::printf("{\"first\": %zu, \"round\": %d, \"seconds\": [", first, round);
  const char* comma = "";
  for (const auto& one : timed) {
    if (one) std::printf("%s%.9g", comma, time(*one));
    else std::printf("%snull", comma);
    comma = ", ";
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

}  // namespace

Timed::Timed(std::unique_ptr<Program> program, int first)
    : program_(std::move(program)), first_(first), image_(some_image(program_->input_floats())) {}

void Timed::warm_up() {
  std::vector<float> output(static_cast<std::size_t>(program_->output_floats()));
  program_->run(image_.data(), 1, output.data());
}

double Timed::visit(double visit) {
  // Three are the fewest of which one may be disturbed.
  const double runs = std::round(visit / std::max(program_->time(first_, image_.data(), 1)[0], 1e-7));
  return median(program_->time(first_, image_.data(), static_cast<int>(std::clamp(runs, 3.0, 1e6))));
}

double Timed::once() { return program_->time(0, image_.data(), 1)[0]; }

void print_rounds(std::vector<std::unique_ptr<Timed>>& timed, std::size_t first, int rounds, double visit) {
  for (const auto& one : timed)
    if (one) {
      one->warm_up();
      one->visit(visit);
    }
  for (int round = 0; round < rounds; ++round)
    print_round(timed, first, round, [&](Timed& one) { return one.visit(visit); });
}

void print_once(std::vector<std::unique_ptr<Timed>>& timed, std::size_t first) {
  print_round(timed, first, 0, [](Timed& one) { return one.once(); });
}

}  // namespace jcw

// jcw-device: times layers and runs models on machines without Python.
//
//   jcw-device layers FILE     one JSON line per line of FILE (see problem.hpp)
//   jcw-device run MODEL       the outputs for a fixed image, and the time of one image
//   jcw-device info            instruction sets that run here
//
// Options: --threads N, --isa NAME, --rounds N, --once (a single pass without warm-up, for counting instructions).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/isa.hpp"
#include "core/program.hpp"
#include "device/problem.hpp"

namespace {

struct Options {
  std::string command, file, isa;
  int threads = 1, rounds = 20;
  bool once = false;
};

struct UsageError : jcw::Error {
  using Error::Error;
};

int whole_number(const std::string& text, int high) {
  const int number = std::atoi(text.c_str());
  if (number < 1 || number > high) throw UsageError("'" + text + "' is not a number from 1 to " + std::to_string(high));
  return number;
}

Options parse_options(int count, char** words) {
  Options options;
  std::vector<std::string> plain;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool takes_value = word == "--threads" || word == "--isa" || word == "--rounds";
    if (takes_value && i + 1 == count) throw UsageError(word + " needs a value");
    if (word == "--threads") options.threads = whole_number(words[++i], 256);
    else if (word == "--rounds") options.rounds = whole_number(words[++i], 1000000);
    else if (word == "--isa") options.isa = words[++i];
    else if (word == "--once") options.once = true;
    else if (word.rfind("--", 0) == 0) throw UsageError("unknown option " + word);
    else plain.push_back(word);
  }
  if (plain.empty() || plain.size() != (plain[0] == "info" ? 1u : 2u))
    throw UsageError("usage: jcw-device layers FILE | run MODEL | info [--threads N] [--isa NAME] [--rounds N] [--once]");
  options.command = plain[0];
  if (plain.size() == 2) options.file = plain[1];
  return options;
}

// Smooth, signed and the same on every machine.
std::vector<float> fixed_image(std::int64_t floats) {
  std::vector<float> image(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(static_cast<int>(i * 37 % 201) - 100) / 64;
  return image;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double time_program(jcw::Program& program, int first_unit, const Options& options) {
  const std::vector<float> image = fixed_image(program.input_floats());
  std::vector<float> output(static_cast<std::size_t>(program.output_floats()));
  if (options.once) return program.time_from(0, image.data(), 1);
  program.run(image.data(), 1, output.data());
  std::vector<double> seconds;
  for (int i = 0; i < options.rounds; ++i) seconds.push_back(program.time_from(first_unit, image.data(), 1));
  return median(seconds);
}

std::ifstream opened(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw jcw::FormatError(path + ": cannot be opened");
  return file;
}

void time_layers(const Options& options) {
  std::ifstream file = opened(options.file);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    jcw::Program program(jcw::problem_model(jcw::parse_problem(line, number)), options.threads, options.isa);
    const double seconds = time_program(program, 1, options);
    const jcw::Step& step = program.steps().back();
    std::printf("{\"line\": %d, \"seconds\": %.9g, \"macs\": %.0f, \"kernel\": \"%s\", \"isa\": \"%s\"}\n", number, seconds,
                step.macs, step.kernel.c_str(), program.kernels().name);
  }
}

void run_model(const Options& options) {
  std::ifstream file = opened(options.file);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  jcw::Program program(jcw::Model::parse(std::as_bytes(std::span(bytes))), options.threads, options.isa);
  const std::vector<float> image = fixed_image(program.input_floats());
  std::vector<float> output(static_cast<std::size_t>(program.output_floats()));
  program.run(image.data(), 1, output.data());
  std::printf("{\"seconds\": %.9g, \"isa\": \"%s\", \"threads\": %d, \"output\": [", time_program(program, 0, options),
              program.kernels().name, program.threads());
  for (std::size_t i = 0; i < output.size(); ++i) {
    // JSON has no word for what is not finite.
    if (std::isfinite(output[i])) std::printf("%s%.9g", i ? ", " : "", static_cast<double>(output[i]));
    else std::printf("%snull", i ? ", " : "");
  }
  std::printf("]}\n");
}

void print_info() {
  for (const std::string& isa : jcw::available_isas()) std::printf("%s\n", isa.c_str());
}

}  // namespace

int main(int count, char** words) {
  try {
    const Options options = parse_options(count, words);
    if (options.command == "layers") time_layers(options);
    else if (options.command == "run") run_model(options);
    else if (options.command == "info") print_info();
    else throw UsageError("unknown command " + options.command);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "jcw-device: %s\n", error.what());
    return 2;
  }
  return 0;
}

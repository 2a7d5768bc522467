// Running a program's steps, for results and for times.
#include "program.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "base/error.hpp"
#include "base/isa.hpp"
#include "model/half.hpp"
#include "steps/binder.hpp"

namespace jcw {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const Kernels& kernels_for(const Model& model, const std::string& isa) {
  const Kernels& kernels = choose_isa(isa);
  return model.half ? half_kernels(kernels) : kernels;
}

float* widened(const Half* pixels, int count, float* to) { return std::transform(pixels, pixels + count, to, float_of_half); }

// What of memory is filled with it holds NaN, in floats and in half precision.
constexpr int kPoison = 0xFF;

}  // namespace

Program::Program(Model model, int threads, const std::string& isa, bool together)
    : Program(std::move(model), threads, isa, together, nullptr) {}

Program::Program(Model model, int threads, const std::string& isa, bool together, const Store* weights) try
    : model_(std::move(model)),
      isa_(choose_isa(isa).name),
      together_(together),
      kernels_(&kernels_for(model_, isa)),
      quantized_(&quantized_kernels(choose_isa(isa))),
      lowered_(lower(model_, {quantized_->pixel_bytes, quantized_->offset, quantized_->taps, kernels_->tuning.block}, together)),
      plan_(plan_memory(lowered_)),
      arena_(plan_.floats),
      store_(weights),
      threads_(threads) {
  for (const Fill& fill : plan_.fills) {
    float value;
    std::memcpy(&value, &fill.bits, sizeof value);
    std::fill(arena_.data() + fill.begin, arena_.data() + fill.end, value);
  }
  for (const auto& [begin, end] : plan_.guards) arena_.guard(begin, end);
  steps_ = make_steps({&model_, &lowered_, &plan_, arena_.data(), &scratch_, &store_, &image_, kernels_, quantized_});
  scratch_.allocate(threads);
  for (Unit& unit : model_.units) unit.weight = {};  // the store has them packed
} catch (const std::logic_error& error) {
  // A step would read outside its tensors: the engine's mistake, and a layer that it cannot run.
  throw DeviceError(error.what());
}

std::size_t Program::first_step(int unit) const {
  std::size_t step = 0;
  while (step < steps_.size() && steps_[step].unit < unit) ++step;
  return step;
}

void Program::run_steps(std::size_t begin, std::size_t end) {
  for (std::size_t s = begin; s < end; ++s) {
    if (steps_[s].clear) threads_.run([&](int part) { steps_[s].clear(part, threads_.count()); });
    threads_.run([&](int part) { steps_[s].run(part, threads_.count()); });
  }
}

// Dense.
void Program::store(int number, float* output) const {
  const Tensor& tensor = lowered_.tensors[static_cast<std::size_t>(number)];
  const void* const data = arena_.data() + plan_.offset[static_cast<std::size_t>(number)];
  const std::int64_t row = tensor.flat ? tensor.shape.width : tensor.layout.row;
  const std::int64_t plane = tensor.flat ? tensor.shape.pixels() : tensor.layout.plane;
  for (int c = 0; c < tensor.shape.channels; ++c)
    for (int y = 0; y < tensor.shape.height; ++y)
      if (const auto at = c * plane + y * row; tensor.half)
        output = widened(static_cast<const Half*>(data) + at, tensor.shape.width, output);
      else
        output = std::copy_n(static_cast<const float*>(data) + at, tensor.shape.width, output);
}

std::int64_t Program::memory_floats() const {
  std::int64_t floats = plan_.floats + threads() * scratch_.floats();
  for (const auto& lane : lanes_) floats += lane->memory_floats();
  return floats;
}

void Program::add_lanes(const std::function<Model()>& model) {
  if (!lanes_.empty()) return;
  threads_.restart_after_fork();
  std::vector<std::unique_ptr<Program>> lanes(static_cast<std::size_t>(threads() - 1));
  std::vector<std::exception_ptr> errors(lanes.size());
  threads_.run([&](int part) {
    if (!part) return;
    const auto own = static_cast<std::size_t>(part - 1);
    try {
      lanes[own].reset(new Program(model(), 1, isa_, together_, &store_));
    } catch (...) {
      errors[own] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  lanes_ = std::move(lanes);
}

// By the thread that calls it.
void Program::run_alone(const float* image, float* output) {
  image_ = image;
  for (const Step& step : steps_) {
    if (step.clear) step.clear(0, 1);
    step.run(0, 1);
  }
  store(lowered_.output, output);
}

void Program::run(const float* images, std::int64_t count, float* outputs, const Pause& pause) {
  threads_.restart_after_fork();
  std::int64_t i = 0;
  for (; !lanes_.empty() && i + threads() <= count; i += threads()) {
    threads_.run([&](int part) {
      Program& lane = part ? *lanes_[static_cast<std::size_t>(part - 1)] : *this;
      lane.run_alone(images + (i + part) * input_floats(), outputs + (i + part) * output_floats());
    });
    if (pause) pause();
  }
  for (; i < count; ++i) {
    image_ = images + i * input_floats();
    run_steps(0, steps_.size());
    store(lowered_.output, outputs + i * output_floats());
    if (pause) pause();
  }
}

void Program::observe(const float* image, const std::vector<int>& tensors,
                      const std::function<void(int, const std::vector<float>&)>& body) {
  threads_.restart_after_fork();
  image_ = image;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    run_steps(s, s + 1);
    const int written = lowered_.operations[s].write;
    if (std::find(tensors.begin(), tensors.end(), written) == tensors.end()) continue;
    std::vector<float> values(static_cast<std::size_t>(lowered_.tensors[static_cast<std::size_t>(written)].shape.size()));
    store(written, values.data());
    body(written, values);
  }
}

void Program::poison() {
  for (std::size_t t = 0; t < lowered_.tensors.size(); ++t) {
    const Tensor& tensor = lowered_.tensors[t];
    if (tensor.external || !tensor.kind.empty() || plan_.offset[t] < 0) continue;
    const Layout& layout = tensor.layout;
    for (int c = 0; c < layout.planes; ++c)
      for (int y = 0; y < layout.height; ++y)
        std::memset(after<void>(arena_.data() + plan_.offset[t], c * layout.plane + y * layout.row, tensor.bytes), kPoison,
                    static_cast<std::size_t>(layout.width * tensor.bytes));
  }
  for (int i = 0; scratch_.floats() && i < threads(); ++i)
    std::memset(scratch_.of(i), kPoison, static_cast<std::size_t>(scratch_.floats()) * sizeof(float));
  for (const auto& lane : lanes_) lane->poison();
}

std::vector<double> Program::profile(const float* image, int rounds, const Pause& pause) {
  threads_.restart_after_fork();
  std::vector<double> seconds(steps_.size(), 0.0);
  image_ = image;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const double start = now();
      run_steps(s, s + 1);
      seconds[s] += (now() - start) / rounds;
    }
    if (pause) pause();
  }
  return seconds;
}

// Not inlined, so that tools which count instructions find it.
__attribute__((noinline)) double Program::timed(std::size_t begin) {
  const double start = now();
  run_steps(begin, steps_.size());
  return now() - start;
}

std::vector<double> Program::time(int first, const float* image, int runs, const Pause& pause) {
  threads_.restart_after_fork();
  image_ = image;
  const std::size_t begin = first_step(first);
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    run_steps(0, begin);
    seconds.push_back(timed(begin));
    if (pause) pause();
  }
  return seconds;
}

}  // namespace jcw

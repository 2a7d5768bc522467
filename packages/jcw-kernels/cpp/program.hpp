// A model bound to memory and kernels: runs images, and says where the time goes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "steps/steps.hpp"
#include "base/threads.hpp"

namespace jcw {

// Called between images, where a caller may want to end a long run by an exception. Empty where not.
using Pause = std::function<void()>;

class Program {
 public:
  // `isa` is a name or "" for the best; `together` as of lower(). Throws Error.
  Program(Model model, int threads, const std::string& isa, bool together = true);

  const Model& model() const { return model_; }
  const Kernels& kernels() const { return *kernels_; }
  const std::vector<Step>& steps() const { return steps_; }
  int threads() const { return threads_.count(); }
  std::int64_t input_floats() const { return model_.input.size(); }
  std::int64_t output_floats() const { return model_.shape(model_.output).size(); }
  std::int64_t memory_floats() const;

  // Has each thread compute an image of its own where there are many, which wastes less than all of them at work on each layer.
  // That takes memory for the activations of as many images, but no more for weights. `model` makes what the program was made
  // of. Throws Error, after which all is as before.
  void add_lanes(const std::function<Model()>& model);

  // Dense images, input_floats() each, to dense outputs, output_floats() each.
  void run(const float* images, std::int64_t count, float* outputs, const Pause& pause = {});

  // Runs one image and calls body(tensor, values) for each of `tensors` that a step writes, as soon as it has: dense, and gone
  // when body returns. Tensors that are never in memory as a whole are left out.
  void observe(const float* image, const std::vector<int>& tensors, const std::function<void(int, const std::vector<float>&)>& body);

  // Fills every real pixel with NaN, so that tests see what a kernel leaves unwritten.
  void poison();

  // Seconds of each step, averaged over `rounds` runs of one image.
  std::vector<double> profile(const float* image, int rounds, const Pause& pause = {});

  // Seconds of the steps from unit `first` on, once for each of `runs`. Before each run the earlier steps make
  // their inputs anew, so that these lie in the caches as they do within a network.
  std::vector<double> time(int first, const float* image, int runs, const Pause& pause = {});

 private:
  Program(Model model, int threads, const std::string& isa, bool together, const Store* weights);

  std::size_t first_step(int unit) const;
  void run_alone(const float* image, float* output);
  void run_steps(std::size_t begin, std::size_t end);
  double timed(std::size_t begin);
  void store(int tensor, float* values) const;

  Model model_;
  const std::string isa_;
  const bool together_;
  const Kernels* kernels_;
  const QuantizedKernels* quantized_;
  Lowered lowered_;
  MemoryPlan plan_;
  Arena arena_;
  Scratch scratch_;
  Store store_;
  const float* image_ = nullptr;
  std::vector<Step> steps_;
  Threads threads_;
  std::vector<std::unique_ptr<Program>> lanes_;  // of all threads but one; none until they are added
};

}  // namespace jcw

// Steps: operations bound to memory, packed weights and kernels, ready to run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ranges.hpp"
#include "lowering/arena.hpp"
#include "lowering/lower.hpp"

namespace jcw {

// Computes rows of some groups of output channels into planes that lie `plane` pixels apart; channel 0 and pixel 0 would
// lie at `out`, a whole number of blocks away from where memory is.
struct Groupwise {
  int groups = 0, channels = 0;  // groups, output channels of each
  std::function<void(void* out, std::ptrdiff_t plane, Range rows, Range groups)> compute;
};

struct Step {
  int unit = 0;
  std::string kernel;    // what a profile calls it: "sparse", "dense", "rows", "winograd", "winograd rows", "int8", ...
  double density = 1.0;  // share of weight groups kept
  double macs = 0.0;     // multiply-accumulates on kept weights
  double bytes = 0.0;    // activations and weights read and written, each once
  bool leaves_ends = false;  // it writes only real pixels, not the zeros at the ends of rows
  // Any split of the work gives the same bits. All parts of `clear`, where there is one, end before `run` begins.
  std::function<void(int part, int parts)> clear, run;
  Groupwise groupwise;  // of convolutions by tiles
};

// Everything that the steps point to.
struct Bound {
  const Model* model;
  const Lowered* lowered;
  const MemoryPlan* plan;
  float* memory;
  Scratch* scratch;
  Store* store;
  const float* const* image;  // where the caller's image is at the time of the call
  const Kernels* kernels;
  const QuantizedKernels* quantized;
};

// One step per operation, in order. `bound` must outlive them.
std::vector<Step> make_steps(const Bound& bound);

}  // namespace jcw

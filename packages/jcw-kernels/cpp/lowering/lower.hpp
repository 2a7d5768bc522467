// From units to operations on laid-out tensors: which layout every tensor has, and which copies
// between layouts (stride phases, other padding) have to be made.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lowering/access.hpp"
#include "lowering/layout.hpp"
#include "model/model.hpp"
#include "model/windows.hpp"

namespace jcw {

struct Tensor {
  Shape shape;
  Layout layout;
  bool external = false;  // the caller's image: dense, read only through copies
  bool flat = false;
  float fill = 0.0f;      // value of all padding
  int bytes = sizeof(float);  // of a pixel: fewer of whole numbers
  std::string kind;       // tells tensors apart that may not share a buffer
  int row_class = 0, pad_rows = 0, pad_columns = 0;

  // Memory that it takes. Kernels of whole numbers read past the pixels that they need.
  std::int64_t floats() const {
    const std::int64_t all = whole_blocks(layout.floats());
    return bytes == sizeof(float) ? all : whole_blocks(divide_up(times(all, bytes) + 4 * kBlock, sizeof(float)));
  }
  std::int64_t lead() const { return layout.lead() * bytes / static_cast<int>(sizeof(float)); }
};

enum class Kind { convolution, quantize, windowed, linear, elementwise, relayout, global_mean, concat, portable };

struct Phase {
  int y, x;
  auto operator<=>(const Phase&) const = default;
};

inline constexpr int kNoUnit = -1;  // of the copy that a network without units makes

struct Operation {
  Kind kind = Kind::elementwise;
  int unit = 0;
  std::vector<int> reads;
  int residual = -1, write = 0;
  Pair stride;                // relayout
  std::vector<Phase> phases;  // relayout, convolution, windowed: planes per input channel
  Access access = Access::flat;
  // A 1 x 1 convolution whose output, reads[0], only this depthwise one reads: both run together.
  std::vector<Operation> first = {};

  // Tensors that are read from memory.
  std::vector<int> inputs() const {
    std::vector<int> all = first.empty() ? reads : first.front().reads;
    if (residual >= 0) all.push_back(residual);
    return all;
  }
};

struct Lowered {
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
  int output = 0;
};

// Pixels of whole numbers take `bytes`.
Lowered lower(const Model& model, int bytes);

}  // namespace jcw

// From units to operations on laid-out tensors: which layout every tensor has, and which copies
// between layouts (stride phases, other padding) have to be made.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "lowering/access.hpp"
#include "lowering/layout.hpp"
#include "model/half.hpp"
#include "model/model.hpp"
#include "model/windows.hpp"

namespace jcw {

struct Tensor {
  Shape shape;
  Layout layout;
  bool external = false;  // the caller's image: dense, read only through copies
  bool flat = false;
  float fill = 0.0f;      // value of all padding
  int zero = 0;           // the same of whole numbers
  bool half = false;      // its pixels are of half precision
  int bytes = sizeof(float);  // of a pixel: fewer of whole numbers and of half precision
  std::string kind;       // tells tensors apart that may not share a buffer
  int row_class = 0, pad_rows = 0, pad_columns = 0;

  // Memory that it takes. Kernels of whole numbers read past the pixels that they need.
  std::int64_t floats() const {
    const std::int64_t all = whole_blocks(layout.floats());
    return bytes == sizeof(float) ? all : whole_blocks(divide_up(times(all, bytes) + 4 * kBlock, sizeof(float)));
  }
  std::int64_t lead() const { return layout.lead() * bytes / static_cast<int>(sizeof(float)); }

  bool holds_floats() const { return half || bytes == sizeof(float); }  // and no whole numbers

  // The bits of four bytes of padding.
  std::uint32_t padding() const {
    if (half) return 0x00010001u * half_of_float(fill);
    if (holds_floats()) {
      std::uint32_t bits;
      std::memcpy(&bits, &fill, sizeof bits);
      return bits;
    }
    return bytes == 1 ? 0x01010101u * static_cast<std::uint8_t>(zero) : 0x00010001u * static_cast<std::uint16_t>(zero);
  }
};

enum class Kind { convolution, narrow, quantize, windowed, linear, elementwise, relayout, global_mean, concat, portable };

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
  // Whole numbers of what is written, for the unit `reader`; `write` is the same where nobody reads the floats.
  int numbers = -1, reader = kNoUnit;
  // A 1 x 1 convolution whose output, reads[0], only this depthwise one reads: both run together.
  std::vector<Operation> first = {};

  // Tensors that are read from memory.
  std::vector<int> inputs() const {
    std::vector<int> all = first.empty() ? reads : first.front().reads;
    if (residual >= 0) all.push_back(residual);
    return all;
  }
  std::vector<int> outputs() const {
    return numbers < 0 || numbers == write ? std::vector<int>{write} : std::vector<int>{write, numbers};
  }
};

struct Lowered {
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
  int output = 0;
};

// How pixels of whole numbers are kept: in so many bytes, less `offset`; as floats where windows have fewer taps, and for depthwise
// convolutions where any has. `block`: how many of the others kernels compute at once.
struct Pixels {
  int bytes, offset, taps, block;
};

// `together`: units may run together whose output only one reads, which then never is in memory.
Lowered lower(const Model& model, Pixels pixels, bool together);

}  // namespace jcw

// Geometry of windows: where kernel taps meet the input, and how much padding that takes.
#pragma once

#include <algorithm>

#include "base/ranges.hpp"
#include "model/model.hpp"

namespace jcw {

// Where kernel tap `tap` meets the input along one axis: input = output * stride + tap - padding.
struct Tap {
  int phase, shift;

  static Tap of(int tap, int padding, int stride) {
    const int offset = tap - padding;
    const int shift = offset >= 0 ? offset / stride : -divide_up(-offset, stride);
    return {offset - shift * stride, shift};
  }
};

inline bool one_pixel(const Shape& shape) { return shape.pixels() == 1; }

// Zeros that a windowed unit needs around the phases of its input.
struct Margin {
  int rows, columns;
};

inline int reach(int size, int outputs, int kernel, int stride, int padding) {
  const int phase_size = divide_up(size, stride);
  const int before = divide_up(padding, stride);
  const int after = Tap::of(kernel - 1, padding, stride).shift + outputs - 1 - (phase_size - 1);
  return std::max({before, after, 0});
}

inline Margin margin_of(const Unit& unit) {
  const Pair span = unit.span();
  return {reach(unit.in.height, unit.out.height, span.y, unit.stride.y, unit.padding.y),
          reach(unit.in.width, unit.out.width, span.x, unit.stride.x, unit.padding.x)};
}

// The same in pixels of the input itself.
inline int plain_reach(int size, int out, int kernel, int stride, int padding) {
  return std::max({padding, (out - 1) * stride + kernel - 1 - padding - (size - 1), 0});
}

inline Margin plain_margin_of(const Unit& unit) {
  return {plain_reach(unit.in.height, unit.out.height, unit.kernel.y, unit.stride.y, unit.padding.y),
          plain_reach(unit.in.width, unit.out.width, unit.kernel.x, unit.stride.x, unit.padding.x)};
}

inline bool is_windowed(const Unit& unit) {
  return unit.op == Op::conv2d || unit.op == Op::max_pool || unit.op == Op::avg_pool;
}

inline bool is_pool(const Unit& unit) { return unit.op == Op::max_pool || unit.op == Op::avg_pool; }

// A convolution with one output pixel is a linear layer on its flattened input.
inline bool is_linear(const Unit& unit) { return unit.fuses() && one_pixel(unit.out); }

// What can be computed with whole numbers.
inline bool quantizes(const Unit& unit) {
  return unit.fuses() && (unit.groups == 1 || (unit.depthwise() && !is_linear(unit)));
}

// Whether a convolution that keeps so many inputs for each output, in the mean, is faster with whole numbers by more than rounding
// its inputs costs, where there are dot products of bytes. Measured.
inline bool gains_from_numbers(Pair kernel, double kept_inputs) { return kernel != Pair{1, 1} || kept_inputs >= 8; }

// Of whole numbers and their zeros: sums of more may not fit in 32 bits.
inline constexpr std::int64_t kMostProducts = (std::int64_t{1} << 31) / (2 * 255 * 127);

// The same of a linear layer, which multiplies what is pruned as well, once its inputs are numbers. Measured.
inline bool linear_gains_from_numbers(std::int64_t inputs, std::int64_t outputs, double density) {
  return inputs <= kMostProducts && density >= 0.19 && density * static_cast<double>(inputs * outputs) >= 2048;
}

// The same of a depthwise one. Those before activations that do more than clamp have neighbours that make no numbers; of strided ones
// most would be taken apart first, and the others compute as many pixels of a row at once. Measured.
inline bool depthwise_gains_from_numbers(Pair kernel, Pair stride, bool clamps, int out_width) {
  const bool by_two = stride == Pair{2, 2} && (kernel == Pair{3, 3} || kernel == Pair{5, 5}) && out_width > 16;
  return kernel != Pair{1, 1} && (stride == Pair{1, 1} || by_two) && clamps;
}

inline bool clamps(Activation activation) {
  return activation == Activation::none || activation == Activation::relu || activation == Activation::relu6;
}

inline bool never_negative(Activation activation) {
  return activation == Activation::relu || activation == Activation::relu6 || activation == Activation::sigmoid ||
         activation == Activation::hardsigmoid;
}

}  // namespace jcw

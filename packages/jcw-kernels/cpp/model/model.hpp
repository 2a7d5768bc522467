// A network as the engine takes it: units in the order in which they run, batch norm folded away.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "kernels/kernels.hpp"

namespace jcw {

class Json;

inline constexpr int kGroup = 4;                                  // output channels of a weight group
inline constexpr int kLargestSize = 1 << 16;                      // channels, height, width, features
inline constexpr std::int64_t kLargestTensor = std::int64_t{1} << 28;  // floats of one activation or weight

struct Shape {
  int channels = 0, height = 1, width = 1;

  std::int64_t pixels() const { return times(height, width); }
  std::int64_t size() const { return times(channels, pixels()); }
  bool operator==(const Shape&) const = default;
};

struct Pair {
  int y = 1, x = 1;
  bool operator==(const Pair&) const = default;
};

enum class Op { conv2d, linear, max_pool, avg_pool, global_avg_pool, flatten, activation, add, mul, concat,
                leaky_relu, clip, elu, prelu, softmax, slice, channel_shuffle, resize_nearest, resize_bilinear, pixel_shuffle,
                conv_transpose2d };

// Tensor 0 is the network's input; unit i makes tensor i + 1.
struct Unit {
  std::string name;
  Op op = Op::activation;
  std::vector<int> inputs;
  int residual = -1;
  Activation activation = Activation::none;
  std::vector<float> slopes;  // channels of the output, of Activation::leaky
  int out_channels = 0, groups = 1;
  Pair kernel, stride, padding{0, 0}, padding_end{0, 0};  // before the first pixels and after the last
  Pair dilation, output_padding{0, 0};          // of a convolution; of a transposed one
  float low = 0.0f, high = 0.0f, slope = 0.0f;  // of clip; of leaky_relu, and the alpha of elu
  int start = 0;                                // first channel of a slice
  Pair scale;                                   // of a resizing operation; of pixel_shuffle, its factor twice
  int phase_channels = 1;                       // of pixel_shuffle: adjacent ones, after which those of the next phase come
  Pair size{0, 0};                              // that a resizing operation makes, where it has no factor
  bool align_corners = false;                   // of resize_bilinear
  Shape in, out;
  std::int64_t transposed = 0;  // weights of the transposed convolution whose place a convolution takes, see split_transposed
  std::vector<float> weight;  // out_channels x (in channels / groups) x kernel; of prelu, channels
  std::vector<float> bias;    // out_channels
  // Of a convolution of whole numbers: weights are numbers of -127 to 127, each worth its output channel's scale; pixels are
  // numbers of 0 to 255, `zero` is 0.0, and one more is worth `input_scale`.
  std::vector<float> weight_scale;  // out_channels; none of units that compute with floats
  float input_scale = 0.0f;
  int zero = 0;

  bool convolves() const { return op == Op::conv2d || op == Op::conv_transpose2d; }
  bool weighted() const { return convolves() || op == Op::linear; }
  bool fuses() const { return op == Op::conv2d || op == Op::linear; }  // takes a residual
  bool quantized() const { return !weight_scale.empty(); }
  bool depthwise() const { return op == Op::conv2d && groups == in.channels && groups == out.channels; }
  bool resizes() const { return op == Op::resize_nearest || op == Op::resize_bilinear; }
  bool portable() const { return op >= Op::clip; }  // computed by plain loops
  Pair span() const { return {(kernel.y - 1) * dilation.y + 1, (kernel.x - 1) * dilation.x + 1}; }  // pixels, first to last tap
  int taps() const { return whole(times(kernel.y, kernel.x)); }
  std::int64_t positions() const { return times(in.channels / groups, taps()); }  // weights per output channel
  std::int64_t weights() const { return times(out_channels, positions()); }
};

// Makes an activation of a unit that has slopes and reads planes, or vectors with one slope: a kernel computes it.
void to_activation(Unit& unit, std::vector<float> slopes);

// Reads one unit of a program, without weights and shapes; its inputs lie below `known_tensors`. Throws FormatError.
Unit read_unit(const Json& entry, int known_tensors);

struct Model {
  Shape input;
  bool half = false;  // computes in half precision
  std::vector<Unit> units;
  int output = 0;

  const Shape& shape(int tensor) const { return tensor ? units[static_cast<std::size_t>(tensor - 1)].out : input; }

  // Reads a model.jcw. Every size, index and value is checked first: throws FormatError.
  static Model parse(std::span<const std::byte> file);
};

}  // namespace jcw

// Weights in the order in which the kernels read them.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "model/half.hpp"
#include "model/model.hpp"

namespace jcw {

inline constexpr std::int32_t kNowhere = INT32_MIN;

// Address of the pixels that input (channel, tap_y, tap_x) multiplies, relative to the output pixel's;
// kNowhere when that tap only ever meets padding.
using Address = std::function<std::int32_t(int channel, int tap_y, int tap_x)>;

// Taps of one plane that can meet a real pixel, in order, after their offsets.
std::vector<std::pair<std::int32_t, int>> reachable_taps(const Unit& unit, const Address& address);

struct Packed {
  std::vector<std::int32_t> offsets, starts, dense_starts;
  std::vector<float> weights, bias;
  std::vector<Half> halves;  // instead of `weights`, for kernels of half precision
  int groups = 0, blocks = 1;

  double bytes() const { return static_cast<double>((offsets.size() + weights.size()) * 4 + halves.size() * sizeof(Half)); }
  void narrow();
};

// What sums of whole numbers are worth, one per output channel, padded to whole groups of `channels`.
std::vector<float> padded_scales(const Unit& unit, int channels);

// Groups of four output channels; groups of weights that are all zero are left out.
Packed pack_sparse(const Unit& unit, int blocks, const Address& address);

// Groups of `channels` output channels, all weights. For ungrouped convolutions.
Packed pack_dense(const Unit& unit, int channels, int blocks, const Address& address);

// Whole-numbered weights of groups of four output channels, as kernels of whole numbers read them.
struct PackedNumbers {
  std::vector<std::int32_t> offsets, starts, first;
  std::vector<std::byte> weights;
  std::vector<float> scales, bias;
  int groups = 0;
  int products = 0;  // of each channel of a depthwise convolution, of each group of a linear layer

  double bytes() const { return static_cast<double>(offsets.size() * sizeof(std::int32_t) + weights.size()); }
};

// With `all`, entries of zeros as well, so that every group has the same.
PackedNumbers pack_quantized(const Unit& unit, const QuantizedKernels& kernels, const Address& address, bool all);

// Those of a linear layer, with zeros for what is left out: its inputs are read in order, without offsets.
PackedNumbers pack_quantized_linear(const Unit& unit, const QuantizedKernels& kernels, const Address& address);

// Those of a depthwise convolution: weights as [channel][product][pixel], offsets of the products in the first channel's planes.
PackedNumbers pack_quantized_windowed(const Unit& unit, const QuantizedKernels& kernels, const Address& address);

// All weights of a 3 x 3 convolution as G g G^T (see kernels/winograd.inl): 16 points of groups of `channels` output
// channels. Input channels lie `plane` floats apart.
Packed pack_winograd(const Unit& unit, int channels, int blocks, std::int64_t plane);

// All weights of rows of 7 taps at their points (see kernels/winograd_rows.inl), for seven products one after the other: those of
// product p have `groups` entries of `starts` from p * groups on, and one of `dense_starts`. `address` tells where a point of some
// row of the window lies in an input channel.
using PointAddress = std::function<std::int32_t(int point, int channel, int tap_y)>;
Packed pack_winograd_rows(const Unit& unit, int channels, const PointAddress& address);

// Share of weight groups that are not zero.
double density(const Unit& unit);

}  // namespace jcw

// What both of Winograd's forms have in common.
#pragma once

#include "steps/binder.hpp"

namespace jcw {

// The tile that sums points over input channels, and its output channels.
struct SumTile {
  decltype(Kernels::convolve) convolve;
  int channels;
};

SumTile sum_tile(const Kernels& kernels);

// The sums over inputs at each point, as dense 1 x 1 convolutions from points to products, of which planes lie `plane` floats apart.
struct PointSums {
  std::vector<float> no_bias;
  std::vector<std::uint32_t> mask;
  Convolution call{};

  void bind(const Binder& binder, Packed& packed, std::int64_t plane);
};

// Whether a layer that keeps this share of its weights takes a form that costs as much of its direct form's time, or is forced to.
// Throws UsageError when the environment variable JCW_WINOGRAD is neither "always" nor "never".
bool takes_winograd(double density, double cost);

}  // namespace jcw

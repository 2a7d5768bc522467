#include "peak.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

namespace jcw {
namespace {

template <class Body>
double best_rate(double flops, int rounds, const Body& body) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    body();
    best = std::max(best, flops / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best / 1e9;
}

// A convolution of one group of output channels, of so many products that what becomes of their sums costs nothing, by tiles
// that all read the same few planes.
struct Layer {
  static constexpr int products = 192, blocks = 6, pixels = blocks * kBlock, planes = 16, inputs = 4, bytes = 2;

  alignas(64) std::byte in[planes * pixels * bytes];
  alignas(64) std::byte weights[products * 4 * inputs * bytes];
  alignas(64) float out[4 * pixels];
  alignas(64) std::uint32_t mask[pixels];
  std::int32_t offsets[products * inputs + kAhead + inputs];
  std::int32_t first[4];
  float scales[4], bias[4];

  Layer() : in(), weights(), out(), mask(), offsets(), first(), scales(), bias() {
    for (int i = 0; i < products * inputs; ++i) offsets[i] = i % planes * pixels;
  }
};

}  // namespace

double peak_gflops(const Kernels& kernels, int rounds) {
  const auto data = std::make_unique<float[]>(2048);
  constexpr int inner = 2000;
  const double flops = 2.0 * 4 * kernels.tuning.tile_vectors * kernels.tuning.width * 32 * inner;
  return best_rate(flops, rounds, [&] { kernels.peak(inner, data.get()); });
}

double peak_gflops(const QuantizedKernels& kernels, int rounds) {
  const auto layer = std::make_unique<Layer>();
  const std::int32_t starts[] = {0, Layer::products};
  QuantizedConvolution call{};
  call.target.out = layer->out;
  call.target.out_plane = Layer::pixels;
  call.target.channels = 4;
  call.target.mask = layer->mask;
  call.target.scales = layer->scales;
  call.target.bias = layer->bias;
  call.in = layer->in;
  call.offsets = layer->offsets;
  call.weights = layer->weights;
  call.starts = starts;
  call.first = layer->first;
  constexpr int inner = 20;
  const double flops = 2.0 * 4 * Layer::pixels * Layer::products * kernels.inputs * inner;
  return best_rate(flops, rounds, [&] {
    for (int i = 0; i < inner; ++i) kernels.convolve(call, 0, Layer::blocks, 0, 1);
  });
}

}  // namespace jcw

// Dense convolutions as steps that compute rows of pixels: what that costs, bands of rows that stay in cache.
#include <algorithm>
#include <limits>

#include "binder.hpp"

namespace jcw {
namespace {

// Bytes of input that all output channels pass over before the next rows do: half of a second-level cache of 1 MB.
constexpr double kBandBytes = 500e3;
// Rows of fewer pixels take as long: multiplications wait for each other.
constexpr int kFewestPixels = 4;

struct State {
  Packed packed;
  ConvolutionRows call{};
  int height = 0, band_rows = 0;
};

}  // namespace

double rows_cost(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Kernels& kernels = binder.kernels();
  if (!kernels.convolve_rows || unit.groups != 1) return std::numeric_limits<double>::infinity();
  const int channels = kernels.rows_channels, groups = (unit.out.channels + channels - 1) / channels;
  const int tiles = (unit.out.width + kernels.rows_pixels - 1) / kernels.rows_pixels;
  const double entries = unit.in.channels * unit.taps(), run = binder.tensor(o.write).layout.blocks() * kBlock;
  const double row = std::max(unit.out.width, kFewestPixels) * entries + tiles * kernels.rows_finish;
  return groups * channels * unit.out.height * row / (unit.out.channels * run * entries);
}

Step make_rows(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  auto state = std::make_shared<State>();
  state->packed = pack_dense(unit, binder.kernels().rows_channels, 1, binder.address(o));
  binder.check_reach(o, state->packed.offsets, 0);
  const View in = binder.view(o.reads[0]);
  state->call = {binder.target(o, layout, unit.out.channels, nullptr, state->packed.bias.data()),
                 in.data,
                 state->packed.offsets.data(),
                 state->packed.weights.data(),
                 in.row,
                 state->packed.starts[1],
                 layout.width};
  state->height = layout.height;
  const double row_bytes = sizeof(float) * static_cast<double>(in.row) * binder.tensor(o.reads[0]).layout.planes;
  state->band_rows = std::max(1, static_cast<int>(kBandBytes / row_bytes));
  Step step;
  step.kernel = "rows";
  step.bytes = state->packed.bytes();
  step.leaves_ends = true;
  step.run = [state, kernel = binder.kernels().convolve_rows](int part, int parts) {
    const int height = state->height, groups = state->packed.groups;
    // As in step_convolution.cpp: wide planes are split by pixels, small ones by output channels.
    const bool by_rows = height >= 12 * parts;
    const Range y = by_rows ? slice(height, part, parts) : Range{0, height};
    const Range g = by_rows ? Range{0, groups} : slice(groups, part, parts);
    for (int row = y.begin; row < y.end; row += state->band_rows)
      kernel(state->call, row, std::min(row + state->band_rows, y.end), g.begin, g.end);
  };
  return step;
}

}  // namespace jcw

// Convolutions as steps: sparse or dense code, blocks of input channels, work for threads.
#include <algorithm>

#include "binder.hpp"

namespace jcw {
namespace {

// Bytes of input that a pixel tile may touch before input channels are split into blocks.
constexpr double kTileCache = 38e3;
constexpr int kTilePixels = 96;
// Rows of pixels are preferred a little before they are as fast as sparse code: the measured scatter of where that is,
// so that no layer is slower at a lower density.
constexpr double kRowsMargin = 0.96;

int input_blocks(const Unit& unit, const Layout& in, const Kernels& kernels) {
  if (unit.taps() == 1) return 1;
  const double cache = unit.stride == Pair{1, 1} ? kTileCache : kernels.strided_cache;
  const double span = kTilePixels + (unit.kernel.y - 1) * static_cast<double>(in.row) + unit.kernel.x;
  const int blocks = static_cast<int>(span * sizeof(float) * unit.in.channels / cache + 0.5);
  return std::clamp(blocks, 1, unit.in.channels);
}

struct State {
  Packed packed;
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  Convolution call{};
  int pixel_blocks = 0;
};

void point(Convolution& call, const Packed& packed) {
  call.offsets = packed.offsets.data();
  call.weights = packed.weights.data();
  call.starts = packed.starts.data();
  call.dense_starts = packed.dense_starts.empty() ? nullptr : packed.dense_starts.data();
  call.groups = packed.groups;
  call.blocks = packed.blocks;
}

}  // namespace

Step make_convolution(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const Kernels& kernels = binder.kernels();
  Step step;
  step.density = density(unit);
  step.macs = step.density * static_cast<double>(unit.out.size() * unit.positions());
  if (winograd_pays(binder, o, step.density)) {
    Step winograd = make_winograd(binder, o);
    winograd.density = step.density;
    winograd.macs = step.macs;
    return winograd;
  }
  const double break_even = unit.taps() == 1 ? kernels.dense_from : kernels.dense_from_windowed;
  if (const double cost = rows_cost(binder, o); cost < 1 && step.density >= kRowsMargin * cost * break_even) {
    Step rows = make_rows(binder, o);
    rows.density = step.density;
    rows.macs = step.macs;
    return rows;
  }
  const bool dense = unit.groups == 1 && step.density >= break_even;
  step.kernel = dense ? "dense" : "sparse";
  auto state = std::make_shared<State>();
  const int blocks = input_blocks(unit, binder.tensor(o.reads[0]).layout, kernels);
  state->packed = dense ? pack_dense(unit, kernels.dense_channels, blocks, binder.address(o))
                        : pack_sparse(unit, blocks, binder.address(o));
  binder.check_reach(o, state->packed.offsets, 0);
  step.bytes = state->packed.bytes();
  state->mask = binder.mask(layout);
  state->pixel_blocks = layout.blocks();
  point(state->call, state->packed);
  state->call.in = binder.view(o.reads[0]).data;
  state->call.target = binder.target(o, layout, unit.out.channels, state->mask->data(), state->packed.bias.data());
  const auto kernel = dense ? kernels.convolve_dense : kernels.convolve;
  step.run = [state, kernel](int part, int parts) {
    const int pixels = state->pixel_blocks, groups = state->packed.groups;
    // Wide planes are split by pixels, so that weights are shared; small ones by output channels.
    const bool by_pixels = pixels >= 12 * parts;
    const Range p = by_pixels ? slice(pixels, part, parts) : Range{0, pixels};
    const Range g = by_pixels ? Range{0, groups} : slice(groups, part, parts);
    kernel(state->call, p.begin, p.end, g.begin, g.end);
  };
  return step;
}

}  // namespace jcw

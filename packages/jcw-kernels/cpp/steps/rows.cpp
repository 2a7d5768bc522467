// Dense convolutions as steps that compute rows of pixels: what that costs, bands of rows that stay in cache.
#include <algorithm>
#include <limits>
#include <optional>

#include "base/caches.hpp"
#include "steps/bands.hpp"

namespace jcw {
namespace {

// Of the second-level cache, what the input takes that all output channels pass over before the next rows do.
constexpr double kBandShare = 0.48;
// Rows of fewer pixels take as long: multiplications wait for each other.
constexpr int kFewestPixels = 4;

struct State {
  Packed packed;
  std::optional<Bands> bands;  // of strided convolutions
  ConvolutionRows call{};
  decltype(Kernels::convolve_rows) kernel = nullptr;
  int height = 0, band_rows = 0;

  void run(int part, int parts) const {
    const Share own = share_of(height, packed.groups, 12, part, parts);
    const Range y = own.pixels;
    if (bands)
      return bands->run_rows(y, part, [&](Range band, const void* in) { run_band(static_cast<const float*>(in), band, own.groups); });
    for (int row = y.begin; row < y.end; row += band_rows)
      run_band(call.in, {row, std::min(row + band_rows, y.end)}, own.groups);
  }

  void run_band(const float* in, Range rows, Range groups) const {
    ConvolutionRows band = call;
    band.in = in;
    kernel(band, rows.begin, rows.end, groups.begin, groups.end);
  }
};

}  // namespace

double rows_cost(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Kernels& kernels = binder.kernels();
  if (!kernels.convolve_rows || unit.groups != 1) return std::numeric_limits<double>::infinity();
  const int channels = kernels.tuning.rows_channels, groups = divide_up(unit.out.channels, channels);
  const int tiles = divide_up(unit.out.width, kernels.tuning.rows_pixels);
  const double entries = unit.in.channels * unit.taps(), run = binder.tensor(o.write).layout.blocks() * kBlock;
  const double row = std::max(unit.out.width, kFewestPixels) * entries + tiles * kernels.tuning.rows_finish;
  return groups * channels * unit.out.height * row / (unit.out.channels * run * entries);
}

Step make_rows(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  auto state = std::make_shared<State>();
  if (o.access == Access::bands) state->bands.emplace(binder, o);
  const Layout& in = state->bands ? state->bands->layout() : binder.tensor(o.reads[0]).layout;
  state->packed = pack_dense(unit, binder.kernels().tuning.rows_channels, 1, binder.address(o, in));
  if (state->bands)
    state->bands->check_reach(unit, state->packed.offsets);
  else
    binder.check_reach(o, state->packed.offsets, 0);
  Step step;
  step.kernel = "rows";
  step.bytes = state->packed.bytes();
  state->call = {binder.target(o, layout, unit.out.channels, nullptr, state->packed.bias.data()),
                 state->bands ? nullptr : static_cast<const float*>(binder.view(o.reads[0]).data),
                 binder.keep(state->packed.offsets),
                 binder.keep(state->packed.weights),
                 static_cast<std::ptrdiff_t>(in.row),
                 state->packed.starts[1],
                 layout.width};
  state->kernel = binder.kernels().convolve_rows;
  state->height = layout.height;
  const double row_bytes = sizeof(float) * static_cast<double>(in.row) * in.planes;
  state->band_rows = std::max(1, static_cast<int>(kBandShare * second_level_cache() / row_bytes));
  step.leaves_ends = true;
  step.run = [state](int part, int parts) { state->run(part, parts); };
  return step;
}

}  // namespace jcw

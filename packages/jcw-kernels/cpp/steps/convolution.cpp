// Convolutions as steps: sparse or dense code, blocks of input channels, work for threads.
#include <algorithm>
#include <optional>

#include "steps/bands.hpp"

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
  const double cache = unit.stride == Pair{1, 1} ? kTileCache : kernels.tuning.strided_cache;
  const double span = kTilePixels + (unit.span().y - 1) * static_cast<double>(in.row) + unit.span().x;
  const int blocks = static_cast<int>(span * kernels.pixel_bytes * unit.in.channels / cache + 0.5);
  return std::clamp(blocks, 1, unit.in.channels);
}

struct State {
  Packed packed;
  std::vector<float> scales;  // of whole numbers
  std::optional<Bands> bands;
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  Convolution call{};
  decltype(Kernels::convolve) kernel = nullptr;
  int pixel_blocks = 0, block = kBlock;
  std::int64_t row = 1;

  void compute(void* out, std::ptrdiff_t plane, Range rows, Range groups) const {
    Convolution elsewhere = call;
    elsewhere.target.out = out;
    elsewhere.target.out_plane = plane;
    kernel(elsewhere, static_cast<int>(rows.begin * row / block), static_cast<int>(divide_up(rows.end * row, block)),
           groups.begin, groups.end);
  }

  void run(int part, int parts) const {
    const Share own = share_of(pixel_blocks, packed.groups, 12, part, parts);
    if (!bands) return kernel(call, own.pixels.begin, own.pixels.end, own.groups.begin, own.groups.end);
    bands->run(own.pixels, part, [&](Range band, const void* in) {
      Convolution banded = call;
      banded.in = in;
      kernel(banded, band.begin, band.end, own.groups.begin, own.groups.end);
    });
  }
};

void point(Convolution& call, Packed& packed, const Binder& binder) {
  call.offsets = binder.keep(packed.offsets);
  call.weights = packed.halves.empty() ? static_cast<const void*>(binder.keep(packed.weights)) : binder.keep(packed.halves);
  call.starts = packed.starts.data();
  call.dense_starts = packed.dense_starts.empty() ? nullptr : packed.dense_starts.data();
  call.groups = packed.groups;
  call.blocks = packed.blocks;
}

// Tiles over flat runs of pixels; without density and macs.
Step make_tiles(const Binder& binder, const Operation& o, bool dense) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const Kernels& kernels = binder.kernels();
  auto state = std::make_shared<State>();
  if (o.access == Access::bands) state->bands.emplace(binder, o);
  const Layout& in = state->bands ? state->bands->layout() : binder.tensor(o.reads[0]).layout;
  const int blocks = input_blocks(unit, in, kernels);
  const Address address = binder.address(o, in);
  state->packed = dense ? pack_dense(unit, kernels.tuning.dense_channels, blocks, address) : pack_sparse(unit, blocks, address);
  if (state->bands)
    state->bands->check_reach(unit, state->packed.offsets);
  else
    binder.check_reach(o, state->packed.offsets, 0);
  if (kernels.pixel_bytes == sizeof(Half)) state->packed.narrow();
  Step step;
  step.kernel = dense ? "dense" : "sparse";
  step.bytes = state->packed.bytes();
  state->mask = binder.mask(layout);
  state->pixel_blocks = layout.blocks();
  state->block = layout.block;
  state->row = layout.row;
  point(state->call, state->packed, binder);
  state->call.in = state->bands ? nullptr : binder.view(o.reads[0]).data;
  state->call.target = binder.target(o, layout, unit.out.channels, state->mask->data(), state->packed.bias.data());
  if (unit.quantized()) {
    step.kernel = "int8 in floats";
    state->scales = padded_scales(unit, dense ? kernels.tuning.dense_channels : kGroup);
    state->call.target.scales = state->scales.data();
  }
  state->kernel = dense ? kernels.convolve_dense : kernels.convolve;
  step.run = [state](int part, int parts) { state->run(part, parts); };
  step.groupwise = {state->packed.groups, dense ? kernels.tuning.dense_channels : kGroup,
                    [state](void* out, std::ptrdiff_t plane, Range rows, Range groups) { state->compute(out, plane, rows, groups); }};
  return step;
}

double break_even(const Unit& unit, const Kernels& kernels) {
  return unit.taps() == 1 ? kernels.tuning.dense_from : kernels.tuning.dense_from_windowed;
}

bool dense_pays(const Unit& unit, const Kernels& kernels, double density) {
  return unit.groups == 1 && density >= break_even(unit, kernels);
}

// In the form that is the fastest at this share of kept weights.
Step make_form(const Binder& binder, const Operation& o, double density) {
  const Unit& unit = binder.unit(o);
  const Kernels& kernels = binder.kernels();
  if (binder.in_numbers(o)) return make_quantized(binder, o, density);
  if (unit.quantized() || o.numbers >= 0) return make_tiles(binder, o, dense_pays(unit, kernels, density));
  if (winograd_pays(binder, o, density)) return make_winograd(binder, o);
  if (winograd_rows_pays(binder, o, density)) return make_winograd_rows(binder, o);
  const double cost = rows_cost(binder, o);
  if (cost < 1 && density >= kRowsMargin * cost * break_even(unit, kernels)) return make_rows(binder, o);
  return make_tiles(binder, o, dense_pays(unit, kernels, density));
}

// Of a transposed convolution, its own weights count, each for every input pixel.
Step counted(Step step, const Unit& unit, double density) {
  if (unit.transposed) {
    step.density = density * static_cast<double>(unit.weights()) / static_cast<double>(unit.transposed);
    step.macs = step.density * static_cast<double>(unit.transposed * unit.in.pixels());
    return step;
  }
  step.density = density;
  step.macs = density * static_cast<double>(unit.out.size() * unit.positions());
  return step;
}

}  // namespace

Step make_convolution(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const double kept = density(unit);
  return counted(make_form(binder, o, kept), unit, kept);
}

Step make_tiled_convolution(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const double kept = density(unit);
  if (binder.in_numbers(o)) return counted(make_quantized(binder, o, kept), unit, kept);
  return counted(make_tiles(binder, o, dense_pays(unit, binder.kernels(), kept)), unit, kept);
}

}  // namespace jcw

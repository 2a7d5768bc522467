// 7 x 7 convolutions with a stride of two as steps in Winograd's form along rows: where it pays, rows that stay in cache.
#include <algorithm>
#include <array>
#include <optional>

#include "base/caches.hpp"
#include "steps/bands.hpp"
#include "steps/winograd.hpp"

namespace jcw {
namespace {

constexpr int kTaps = 7, kTile = 4, kPoints = 13, kProducts = 7;
// Of the second-level cache, what points and products of some rows may take.
constexpr double kRowsShare = 0.25;
// Output channels whose products are kept at a time.
constexpr int kBandChannels = 16;

bool possible(const Unit& unit, const Operation& o, const Kernels& kernels) {
  return kernels.winograd_row_points && unit.groups == 1 && unit.kernel == Pair{kTaps, kTaps} && unit.stride == Pair{2, 2} &&
         unit.dilation == Pair{1, 1} && o.access == Access::bands && o.phases.size() == 4;
}

int tiles_of(const Unit& unit) { return divide_up(unit.out.width, kTile); }

// Multiply-accumulates of the dense tile that the layer takes, transforms included, over those of its direct form.
double cost(const Unit& unit, const Layout& out, const Kernels& kernels) {
  const double inputs = unit.in.channels, outputs = unit.out.channels;
  const auto tiles = static_cast<double>(whole_blocks(std::int64_t{tiles_of(unit)} * unit.out.height));
  const double products = kPoints * kTaps * inputs * outputs;
  const double transforms = kernels.tuning.winograd_transform / 32 * (2 * kPoints * inputs + kProducts * outputs);
  return tiles * (products + transforms) / (kTaps * kTaps * inputs * outputs * out.blocks() * kBlock);
}

// Every second row of the input, from the one under the first tap of the window that meets it on.
struct RowPhase {
  int tap = 0, rows = 0;  // that tap, and how many more rows than the output's are read
};

RowPhase row_phase(const Unit& unit, int phase) {
  const int first = Tap::of(0, unit.padding.y, 2).phase == phase ? 0 : 1;
  return {first, (kTaps - 1 - first) / 2};
}

struct State {
  Packed packed;
  std::optional<Bands> bands;
  std::array<RowPhase, 2> phases;
  RowPoints points{};
  RowProducts outputs{};
  PointSums sums;
  SumTile tile{};
  const Kernels* kernels = nullptr;
  const Scratch* scratch = nullptr;
  std::int64_t own = 0;  // floats of scratch memory before these
  Pair padding;
  int inputs = 0, height = 0, band_rows = 0;
  std::int64_t plane = 0;  // of points

  void run(int part, int parts) const {
    bands->run_rows(slice(height, part, parts), part, [&](Range band, const void* in) {
      in_bands(band, band_rows, [&](Range rows) { run_rows(rows, static_cast<const float*>(in), scratch->of(part) + own); });
    });
  }

  void run_rows(Range rows, const float* in, float* memory) const {
    transform(rows, in, memory);
    const int step = kBandChannels / tile.channels;
    for (int first = 0; first < packed.groups; first += step) {
      const Range groups{first, std::min(first + step, packed.groups)};
      const Range channels{groups.begin * tile.channels, std::min(groups.end * tile.channels, outputs.target.channels)};
      float* const products = memory + kPoints * points.point;
      multiply(rows.size(), groups, channels.size(), memory, products);
      RowProducts from = outputs;
      from.products = products;
      kernels->winograd_row_outputs(from, rows.begin, rows.end, channels.begin, channels.end);
    }
  }

  // What a tap multiplies, relative to the output's pixel. All of its four phases are there.
  std::int64_t pixel(int channel, int tap_y, int tap_x) const {
    const Tap y = Tap::of(tap_y, padding.y, 2), x = Tap::of(tap_x, padding.x, 2);
    const Layout& layout = bands->layout();
    return (4 * channel + 2 * y.phase + x.phase) * layout.plane + y.shift * layout.row + x.shift;
  }

  void transform(Range rows, const float* in, float* memory) const {
    RowPoints to = points;
    to.points = memory;
    to.lines = memory + kPoints * points.point;  // where products will be
    for (int channel = 0; channel < inputs; ++channel)
      for (const RowPhase& phase : phases) {
        const float* const first = in + rows.begin * to.in_row;
        to.even = first + pixel(channel, phase.tap, 0);
        to.odd = first + pixel(channel, phase.tap, 1);
        kernels->winograd_row_points(to, rows.size() + phase.rows);
        to.points += plane;
      }
  }

  void multiply(int rows, Range groups, int channels, const float* memory, float* products) const {
    Convolution sum = sums.call;
    sum.in = memory;
    sum.target.channels = channels;
    for (int p = 0; p < kProducts; ++p) {
      sum.target.out = products + p * outputs.point;
      sum.starts = packed.starts.data() + p * packed.groups + groups.begin;
      sum.dense_starts = packed.dense_starts.data() + p;
      tile.convolve(sum, 0, divide_up(rows * points.tiles, kBlock), 0, groups.size());
    }
  }
};

// How many rows at a time, and how points and products of as many lie.
void plan_rows(State& state, const Unit& unit) {
  const int tiles = tiles_of(unit), planes = 2 * unit.in.channels;
  const double row = 4.0 * tiles * (kPoints * planes + kProducts * kBandChannels);
  const int fitting = static_cast<int>(kRowsShare * second_level_cache() / row);
  state.band_rows = std::clamp(fitting, 1, unit.out.height);
  const std::int64_t run = whole_blocks(std::int64_t{state.band_rows} * tiles);
  // An odd number of cache lines, and room for the vector that the last tile begins.
  state.plane = whole_blocks(run + std::int64_t{kTaps / 2} * tiles + kBlock) | kBlock;
  state.points.point = planes * state.plane;
  state.points.line = 2 * whole_blocks(std::int64_t{tiles}) + kBlock;
  state.outputs.plane = (run + kBlock) | kBlock;
  state.outputs.point = kBandChannels * state.outputs.plane + kBlock;
}

void bind(State& state, const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& out = binder.tensor(o.write).layout;
  state.inputs = unit.in.channels;
  state.height = unit.out.height;
  state.padding = unit.padding;
  state.kernels = &binder.kernels();
  state.scratch = binder.bound().scratch;
  state.own = whole_blocks(state.bands->layout().floats());
  binder.bound().scratch->reserve(state.own + kPoints * state.points.point + std::max(kProducts * state.outputs.point, 4 * state.points.line));
  state.points.in_row = state.bands->layout().row;
  state.points.tiles = state.outputs.tiles = tiles_of(unit);
  state.outputs.target = binder.target(o, out, unit.out.channels, nullptr, state.packed.bias.data());
  state.outputs.out_row = static_cast<std::ptrdiff_t>(out.row);
  state.points.width = state.outputs.width = unit.out.width;
}

// Whole vectors of tiles are read of each row, and the columns under the last one's last taps.
void check_reach(const State& state, const Unit& unit) {
  std::vector<std::int32_t> offsets;
  for (int tap = 0; tap < kTaps; ++tap)
    for (int x = 0; x < 2; ++x)
      for (const int channel : {0, unit.in.channels - 1}) offsets.push_back(whole(state.pixel(channel, tap, x)));
  state.bands->check_reach(unit, offsets, 2 * state.points.line);
}

}  // namespace

bool winograd_rows_pays(const Binder& binder, const Operation& o, double density) {
  const Unit& unit = binder.unit(o);
  return possible(unit, o, binder.kernels()) && takes_winograd(density, cost(unit, binder.tensor(o.write).layout, binder.kernels()));
}

Step make_winograd_rows(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  auto state = std::make_shared<State>();
  state->bands.emplace(binder, o);
  state->tile = sum_tile(binder.kernels());
  for (int phase = 0; phase < 2; ++phase) state->phases[static_cast<std::size_t>(phase)] = row_phase(unit, phase);
  plan_rows(*state, unit);
  const std::int64_t tiles = tiles_of(unit);
  state->packed = pack_winograd_rows(unit, state->tile.channels, [&](int point, int channel, int tap_y) {
    const int phase = Tap::of(tap_y, unit.padding.y, 2).phase;
    const std::int64_t rows = (tap_y - row_phase(unit, phase).tap) / 2;
    return whole(point * state->points.point + (2 * channel + phase) * state->plane + rows * tiles);
  });
  Step step;
  step.kernel = "winograd rows";
  step.bytes = state->packed.bytes();
  bind(*state, binder, o);
  state->sums.bind(binder, state->packed, state->outputs.plane);
  check_reach(*state, unit);
  step.leaves_ends = true;
  step.run = [state](int part, int parts) { state->run(part, parts); };
  return step;
}

}  // namespace jcw

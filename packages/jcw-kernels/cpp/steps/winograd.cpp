// 3 x 3 convolutions of stride 1 as steps in Winograd's form: which layers it pays for, bands that stay in cache.
#include <algorithm>
#include <cstdlib>

#include "base/caches.hpp"
#include "base/error.hpp"
#include "steps/winograd.hpp"

namespace jcw {
namespace {

constexpr int kPoints = 16, kTaps = 9;
// Of the second-level cache, what points and products of a band of tiles may take.
constexpr double kBandShare = 0.76;
// Output channels whose products are kept at a time.
constexpr int kBandChannels = 64;
// Blocks of tiles in a band at least, so that weights are not read for too little work.
constexpr int kFewestBlocks = 4;

struct Tiles {
  int rows, per_row;
  explicit Tiles(const Shape& out) : rows(divide_up(out.height, 2)), per_row(divide_up(out.width, 2)) {}
  int count() const { return rows * per_row; }
  int blocks() const { return divide_up(count(), kBlock); }
};

bool possible(const Unit& unit, const Operation& o, const Kernels& kernels) {
  if (unit.transposed) return false;  // sparse code leaves out the zeros of each phase, which no points have
  return kernels.winograd_points && unit.groups == 1 && unit.kernel == Pair{3, 3} && unit.stride == Pair{1, 1} && unit.dilation == Pair{1, 1} && o.phases.size() == 1;
}

// Multiply-accumulates of the dense tile that the layer takes, transforms included, over those of its direct form.
// Sparse code takes about its density of those, so from this density on it is the slower one.
double cost(const Unit& unit, const Layout& out, const Kernels& kernels) {
  const double inputs = unit.in.channels, outputs = unit.out.channels, tiles = Tiles(unit.out).blocks() * kBlock;
  const double products = kPoints * inputs * outputs * std::max(tiles, kernels.tuning.winograd_tiles);
  const double transforms = kernels.tuning.winograd_transform * tiles * (inputs + outputs) / 2;
  return (products + transforms) / (kTaps * inputs * outputs * out.blocks() * kBlock);
}

struct State {
  Packed packed;
  PointSums sums;
  Winograd call{};
  const Kernels* kernels = nullptr;
  decltype(Kernels::convolve) convolve = nullptr;
  Scratch* scratch = nullptr;
  int inputs = 0, tiles = 0, group_channels = 0, band_blocks = 0, band_groups = 0;

  std::int64_t half() const { return std::int64_t{kPoints} * call.point; }

  void run(int part, int parts) const {
    const Share own = share_of(divide_up(tiles, kBlock), packed.groups, 2, part, parts);
    if (!own.groups.size()) return;
    in_bands(own.pixels, band_blocks, [&](Range band) { run_band(band, own.groups, scratch->of(part)); });
  }

  void run_band(Range blocks, Range groups, float* points) const {
    const Range t{blocks.begin * kBlock, std::min(blocks.end * kBlock, tiles)};
    kernels->winograd_points(call, points, t.begin, t.end, 0, inputs);
    for (int first = groups.begin; first < groups.end; first += band_groups) {
      const Range g{first, std::min(first + band_groups, groups.end)};
      const Range channels{g.begin * group_channels, std::min(g.end * group_channels, call.target.channels)};
      multiply(blocks.size(), g, channels, points);
      kernels->winograd_outputs(call, points + half(), t.begin, t.end, channels.begin, channels.end);
    }
  }

  void multiply(int blocks, Range groups, Range channels, float* points) const {
    Convolution convolution = sums.call;
    convolution.target.channels = channels.size();
    convolution.starts += groups.begin;
    for (int p = 0; p < kPoints; ++p) {
      convolution.in = points + p * call.point;
      convolution.target.out = points + half() + p * call.point;
      convolution.weights = static_cast<const float*>(sums.call.weights) + std::int64_t{p} * packed.groups * inputs * group_channels;
      convolve(convolution, 0, blocks, 0, groups.size());
    }
  }
};

// Bands of tiles and, within them, of output channels.
void plan_bands(State& state, const Unit& unit) {
  const Kernels& kernels = *state.kernels;
  const SumTile tile = sum_tile(kernels);
  state.convolve = tile.convolve;
  state.group_channels = tile.channels;
  state.band_groups = kBandChannels / state.group_channels;
  const int planes = unit.in.channels + std::min(kBandChannels, unit.out.channels);
  const int fitting = static_cast<int>(kBandShare * second_level_cache() / (sizeof(float) * kPoints * kBlock) / planes);
  state.band_blocks = std::min(Tiles(unit.out).blocks(), std::max(fitting, kFewestBlocks));
  // An odd number of cache lines, and room for the vector that the last tile of the last channel begins.
  state.call.plane = (state.band_blocks | 1) * kBlock;
  state.call.point = std::max(unit.in.channels, kBandChannels) * state.call.plane + kBlock;
}

// Blocks of input channels, so that what a tile passes over stays in the first-level cache.
int input_blocks(const State& state, const Unit& unit) {
  const Kernels& kernels = *state.kernels;
  const int vectors = state.convolve == kernels.convolve ? kernels.tuning.tile_vectors : kernels.tuning.dense_vectors;
  const double pixels = std::min(vectors * kernels.tuning.width, state.band_blocks * kBlock);
  const int blocks = static_cast<int>(pixels * sizeof(float) * unit.in.channels / kernels.tuning.winograd_cache + 0.5);
  return std::clamp(blocks, 1, unit.in.channels);
}

void check_reach(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& in = binder.tensor(o.reads[0]).layout;
  const std::int64_t last_row = unit.out.height + 1 - unit.padding.y;
  const std::int64_t columns = divide_up(unit.out.width, 2 * kBlock) * 2 * kBlock + 2 * kBlock + 2;
  if (unit.padding.y * in.row + unit.padding.x > in.lead() ||
      in.lead() + (in.planes - 1) * in.plane + last_row * in.row + columns > in.floats())
    throw std::logic_error("unit " + unit.name + " reads out of bounds");
}

void bind(State& state, const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& out = binder.tensor(o.write).layout;
  const View in = binder.view(o.reads[0]);
  state.call.target = binder.target(o, out, unit.out.channels, nullptr, state.packed.bias.data());
  state.call.in = static_cast<const float*>(in.data);
  state.call.in_plane = in.plane;
  state.call.in_row = in.row;
  state.call.out_row = static_cast<std::ptrdiff_t>(out.row);
  state.call.height = unit.out.height;
  state.call.width = unit.out.width;
  state.call.padding_y = unit.padding.y;
  state.call.padding_x = unit.padding.x;
  state.call.tiles_per_row = Tiles(unit.out).per_row;
}

}  // namespace

SumTile sum_tile(const Kernels& kernels) {
  // A dense tile of less than a block would read the weights more often than the sparse one.
  const bool wide = kernels.tuning.dense_vectors * kernels.tuning.width >= kBlock;
  return {wide ? kernels.convolve_dense : kernels.convolve, wide ? kernels.tuning.dense_channels : kGroup};
}

void PointSums::bind(const Binder& binder, Packed& packed, std::int64_t plane) {
  no_bias.resize(packed.bias.size(), 0.0f);
  mask.resize(static_cast<std::size_t>(plane + kBlock), ~0u);
  call.target.bias = no_bias.data();
  call.target.mask = mask.data();
  call.target.out_plane = static_cast<std::ptrdiff_t>(plane);
  call.weights = binder.keep(packed.weights);
  call.offsets = binder.keep(packed.offsets);
  call.starts = packed.starts.data();
  call.dense_starts = packed.dense_starts.data();
  call.groups = packed.groups;
  call.blocks = packed.blocks;
}

bool takes_winograd(double density, double cost) {
  if (const char* forced = std::getenv("JCW_WINOGRAD")) {
    const std::string wanted = forced;
    if (wanted == "always" || wanted == "never") return wanted == "always";
    throw UsageError("JCW_WINOGRAD is '" + wanted + "', expected always or never");
  }
  return density >= cost;
}

bool winograd_pays(const Binder& binder, const Operation& o, double density) {
  const Unit& unit = binder.unit(o);
  return possible(unit, o, binder.kernels()) && takes_winograd(density, cost(unit, binder.tensor(o.write).layout, binder.kernels()));
}

Step make_winograd(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  auto state = std::make_shared<State>();
  state->kernels = &binder.kernels();
  state->scratch = binder.bound().scratch;
  state->inputs = unit.in.channels;
  state->tiles = Tiles(unit.out).count();
  plan_bands(*state, unit);
  state->scratch->reserve(2 * state->half());
  state->packed = pack_winograd(unit, state->group_channels, input_blocks(*state, unit), state->call.plane);
  check_reach(binder, o);
  bind(*state, binder, o);
  Step step;
  step.kernel = "winograd";
  step.bytes = state->packed.bytes();
  state->sums.bind(binder, state->packed, state->call.plane);
  step.leaves_ends = true;
  step.run = [state](int part, int parts) { state->run(part, parts); };
  return step;
}

}  // namespace jcw

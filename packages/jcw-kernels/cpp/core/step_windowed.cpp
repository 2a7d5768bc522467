// Depthwise convolutions and pooling as steps.
#include <algorithm>
#include <numeric>

#include "binder.hpp"

namespace jcw {
namespace {

struct State {
  std::vector<std::int32_t> offsets;
  std::vector<float> weights, bias;
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  Windowed call{};
};

// Kernel taps that can meet a real pixel, with their offsets.
std::vector<int> reachable_taps(const Unit& unit, const Address& address, std::vector<std::int32_t>& offsets) {
  std::vector<int> taps;
  for (int tap = 0; tap < unit.taps(); ++tap) {
    const std::int32_t offset = address(0, tap / unit.kernel.x, tap % unit.kernel.x);
    if (offset == kNowhere) continue;
    offsets.push_back(offset);
    taps.push_back(tap);
  }
  return taps;
}

std::vector<float> weights_of(const Unit& unit, const std::vector<int>& taps) {
  std::vector<float> weights;
  for (int channel = 0; channel < unit.out.channels; ++channel)
    for (const int tap : taps)
      weights.push_back(unit.weighted() ? unit.weight[static_cast<std::size_t>(channel * unit.taps() + tap)]
                                        : 1.0f / static_cast<float>(unit.taps()));
  return weights;
}

}  // namespace

namespace {

// Taps as offsets, for inputs that are walked along flat runs.
void use_offsets(const Binder& binder, const Operation& o, State& state) {
  const Unit& unit = binder.unit(o);
  const std::vector<int> taps = reachable_taps(unit, binder.address(o, binder.tensor(o.reads[0]).layout), state.offsets);
  if (unit.op != Op::max_pool) state.weights = weights_of(unit, taps);
  binder.check_reach(o, state.offsets, 0);
  binder.check_reach(o, state.offsets, std::int64_t{unit.out.channels - 1} * static_cast<std::int64_t>(o.phases.size()));
}

using Kernel = void (*)(const Windowed&, int, int, int, int);

// The kernel made for this window's shape, or null.
Kernel shaped_kernel(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Kernels& kernels = binder.kernels();
  const bool three = unit.kernel == Pair{3, 3}, five = unit.kernel == Pair{5, 5};
  if (o.access == Access::by_two) return three ? kernels.windowed_3_by_two : kernels.windowed_5_by_two;
  if (o.access == Access::flat && unit.weighted()) return three ? kernels.windowed_3 : five ? kernels.windowed_5 : nullptr;
  return nullptr;
}

// All taps, for kernels that know the window's shape.
void use_shape(const Binder& binder, const Operation& o, State& state) {
  const Unit& unit = binder.unit(o);
  const Layout& in = binder.tensor(o.reads[0]).layout;
  std::vector<int> taps(static_cast<std::size_t>(unit.taps()));
  std::iota(taps.begin(), taps.end(), 0);
  if (unit.op != Op::max_pool) state.weights = weights_of(unit, taps);
  // Strips read vectors of columns past the last row's end, flat runs past the last row itself.
  const std::int64_t columns = unit.stride.x * std::int64_t{(unit.out.width + kBlock - 1) / kBlock * kBlock + kBlock};
  const std::int64_t last_row = std::int64_t{unit.out.height - 1} * unit.stride.y + unit.kernel.y - 1 - unit.padding.y;
  const std::int64_t last = last_row * in.row + std::max(columns, in.row + 2 * kBlock) + unit.kernel.x;
  if (unit.padding.y * in.row + unit.padding.x > in.lead() ||
      in.lead() + (in.planes - 1) * in.plane + last > in.floats())
    throw std::logic_error("unit " + unit.name + " reads out of bounds");
}

}  // namespace

Step make_windowed(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const int channels = unit.out.channels, planes = static_cast<int>(o.phases.size());
  auto state = std::make_shared<State>();
  const Kernel shaped = shaped_kernel(binder, o);
  shaped ? use_shape(binder, o, *state) : use_offsets(binder, o, *state);
  state->bias = unit.weighted() ? unit.bias : std::vector<float>(static_cast<std::size_t>(channels), 0.0f);
  state->mask = binder.mask(layout);
  const View in = binder.view(o.reads[0]);
  state->call = {binder.target(o, layout, channels, state->mask->data(), state->bias.data()),
                 in.data,
                 state->offsets.data(),
                 unit.op == Op::max_pool ? nullptr : state->weights.data(),
                 in.plane * planes,
                 shaped ? unit.taps() : static_cast<int>(state->offsets.size()),
                 in.row,
                 static_cast<std::ptrdiff_t>(layout.row),
                 layout.width,
                 unit.padding.y,
                 unit.padding.x};
  Step step;
  step.kernel = unit.weighted() ? "depthwise" : "pool";
  step.macs = unit.weighted() ? static_cast<double>(unit.out.size()) * unit.taps() : 0.0;
  const Kernel kernel = shaped ? shaped : binder.kernels().windowed;
  const int extent = shaped ? layout.height : layout.blocks();
  step.run = [state, kernel, extent, channels](int part, int parts) {
    const Range c = slice(channels, part, parts);
    kernel(state->call, 0, extent, c.begin, c.end);
  };
  return step;
}

}  // namespace jcw

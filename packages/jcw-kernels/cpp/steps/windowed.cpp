// Depthwise convolutions and pooling as steps.
#include <algorithm>
#include <numeric>

#include "steps/binder.hpp"

namespace jcw {
namespace {

using Kernel = void (*)(const Windowed&, int, int, int, int);

struct State {
  std::vector<std::int32_t> offsets;
  std::vector<float> weights, bias, scales;
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  Windowed call{};
  Kernel kernel = nullptr;

  void run(Range extent, Range channels) const { kernel(call, extent.begin, extent.end, channels.begin, channels.end); }
};

std::vector<float> weights_of(const Unit& unit, const std::vector<int>& taps) {
  std::vector<float> weights;
  for (int channel = 0; channel < unit.out.channels; ++channel)
    for (const int tap : taps)
      weights.push_back(unit.weighted() ? unit.weight[static_cast<std::size_t>(channel * unit.taps() + tap)]
                                        : 1.0f / static_cast<float>(unit.taps()));
  return weights;
}

// The kernel made for this window's shape, or null.
Kernel shaped_kernel(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Kernels& kernels = binder.kernels();
  if (unit.dilation != Pair{1, 1}) return nullptr;
  const bool three = unit.kernel == Pair{3, 3};
  if (o.access == Access::by_two) return three ? kernels.windowed_3_by_two : kernels.windowed_5_by_two;
  if (o.access != Access::flat || !unit.weighted()) return nullptr;
  if (three) return kernels.windowed_3;
  return unit.kernel == Pair{5, 5} ? kernels.windowed_5 : unit.kernel == Pair{7, 7} ? kernels.windowed_7 : nullptr;
}

// Throws std::logic_error unless all that such a kernel reads of planes that lie as `in` says is in their memory.
void check_reach(const Unit& unit, const Layout& in, std::int64_t out_row) {
  // Strips read vectors of columns past the last row's end, flat runs past the last row itself.
  const std::int64_t columns = unit.stride.x * (whole_blocks(unit.out.width, in.block) + in.block);
  // A vector that holds two rows of the output reads for both, and there may be no second one.
  const int second = unit.stride.y == 2 && 2 * out_row == in.block ? 2 : 0;
  const std::int64_t last_row = std::int64_t{in.height} - 1 + std::max(unit.padding.y, unit.padding_end.y) + second;
  const std::int64_t last = last_row * in.row + std::max(columns, in.row + 2 * in.block) + unit.kernel.x;
  if (unit.padding.y * in.row + unit.padding.x > in.lead() ||
      in.lead() + (in.planes - 1) * in.plane + last > in.floats())
    throw std::logic_error("unit " + unit.name + " reads out of bounds");
}

// Taps as offsets where no kernel knows the window's shape, else all taps.
void set_taps(const Binder& binder, const Operation& o, const Layout& in, State& state) {
  const Unit& unit = binder.unit(o);
  std::vector<int> taps(static_cast<std::size_t>(unit.taps()));
  if (state.kernel) {
    std::iota(taps.begin(), taps.end(), 0);
    check_reach(unit, in, binder.tensor(o.write).layout.row);
  } else {
    taps.clear();
    for (const auto& [offset, tap] : reachable_taps(unit, binder.address(o, in))) {
      state.offsets.push_back(offset);
      taps.push_back(tap);
    }
    binder.check_reach(o, state.offsets, 0);
    binder.check_reach(o, state.offsets, std::int64_t{unit.out.channels - 1} * static_cast<std::int64_t>(o.phases.size()));
    state.kernel = binder.kernels().windowed;
  }
  if (unit.op != Op::max_pool) state.weights = weights_of(unit, taps);
  state.call.taps = static_cast<int>(taps.size());
}

// All but where the input is.
std::shared_ptr<State> make_state(const Binder& binder, const Operation& o, const Layout& in) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  auto state = std::make_shared<State>();
  state->kernel = shaped_kernel(binder, o);
  set_taps(binder, o, in, *state);
  state->bias = unit.weighted() ? unit.bias : std::vector<float>(static_cast<std::size_t>(unit.out.channels), 0.0f);
  state->mask = binder.mask(layout);
  Windowed& call = state->call;
  call.target = binder.target(o, layout, unit.out.channels, state->mask->data(), state->bias.data());
  if (unit.quantized()) {
    state->scales = padded_scales(unit, 1);
    call.target.scales = state->scales.data();
  }
  call.offsets = state->offsets.data();
  call.weights = binder.keep(state->weights);
  call.maximum = unit.op == Op::max_pool;
  call.in_row = static_cast<std::ptrdiff_t>(in.row);
  call.out_row = static_cast<std::ptrdiff_t>(layout.row);
  call.width = layout.width;
  call.padding_y = unit.padding.y;
  call.padding_x = unit.padding.x;
  return state;
}

}  // namespace

FromPlanes from_planes(const Binder& binder, const Operation& o, const Layout& in) {
  return [state = make_state(binder, o, in)](const void* planes, std::ptrdiff_t plane, Range rows, Range channels) {
    State elsewhere{{}, {}, {}, {}, {}, state->call, state->kernel};
    elsewhere.call.in = planes;
    elsewhere.call.in_plane = plane;
    elsewhere.run(rows, channels);
  };
}

Step make_windowed(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const double macs = unit.weighted() ? static_cast<double>(unit.out.size()) * unit.taps() : 0.0;
  if (binder.in_numbers(o)) {
    Step step = make_quantized_windowed(binder, o);
    step.macs = macs;
    return step;
  }
  const auto state = make_state(binder, o, binder.tensor(o.reads[0]).layout);
  const View in = binder.view(o.reads[0]);
  state->call.in = in.data;
  state->call.in_plane = in.plane * static_cast<std::ptrdiff_t>(o.phases.size());
  Step step;
  step.kernel = unit.quantized() ? "int8 in floats" : unit.weighted() ? "depthwise" : "pool";
  step.macs = macs;
  const int extent = shaped_kernel(binder, o) ? layout.height : layout.blocks();
  step.run = [state, extent, channels = unit.out.channels](int part, int parts) {
    state->run({0, extent}, slice(channels, part, parts));
  };
  return step;
}

}  // namespace jcw

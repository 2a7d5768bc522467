// Depthwise convolutions and pooling as steps.
#include <algorithm>

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

Step make_windowed(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const int channels = unit.out.channels, planes = static_cast<int>(o.phases.size());
  auto state = std::make_shared<State>();
  const std::vector<int> taps = reachable_taps(unit, binder.address(o), state->offsets);
  if (unit.op != Op::max_pool) state->weights = weights_of(unit, taps);
  state->bias = unit.weighted() ? unit.bias : std::vector<float>(static_cast<std::size_t>(channels), 0.0f);
  state->mask = binder.mask(layout);
  binder.check_reach(o, state->offsets, 0);
  binder.check_reach(o, state->offsets, std::int64_t{channels - 1} * planes);
  const View in = binder.view(o.reads[0]);
  state->call = {binder.target(o, layout, channels, state->mask->data(), state->bias.data()), in.data,
                 state->offsets.data(), unit.op == Op::max_pool ? nullptr : state->weights.data(), in.plane * planes,
                 static_cast<int>(taps.size())};
  Step step;
  step.kernel = unit.weighted() ? "depthwise" : "pool";
  step.macs = unit.weighted() ? static_cast<double>(unit.out.size()) * unit.taps() : 0.0;
  step.run = [state, kernel = binder.kernels().windowed, blocks = layout.blocks(), channels](int part, int parts) {
    const Range c = slice(channels, part, parts);
    kernel(state->call, 0, blocks, c.begin, c.end);
  };
  return step;
}

}  // namespace jcw

// Fully connected layers, and convolutions with one output pixel, as steps.
#include "steps/binder.hpp"

namespace jcw {
namespace {

struct State {
  Packed packed;
  Linear call{};
};

// Index into the flattened input of the only pixel that a tap meets.
Address flat_address(const Unit& unit) {
  return [unit](int channel, int tap_y, int tap_x) -> std::int32_t {
    const int y = tap_y * unit.dilation.y - unit.padding.y, x = tap_x * unit.dilation.x - unit.padding.x;
    if (y < 0 || x < 0 || y >= unit.in.height || x >= unit.in.width) return kNowhere;
    return static_cast<std::int32_t>(channel * unit.in.pixels() + y * unit.in.width + x);
  };
}

}  // namespace

Step make_linear(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  auto state = std::make_shared<State>();
  state->packed = pack_sparse(unit, 1, flat_address(unit));
  const Packed& packed = state->packed;
  state->call = {binder.view(o.reads[0]).data,
                 binder.view(o.write).data,
                 o.residual >= 0 ? binder.view(o.residual).data : nullptr,
                 packed.bias.data(),
                 packed.offsets.data(),
                 packed.weights.data(),
                 packed.starts.data(),
                 unit.out.channels,
                 unit.activation};
  Step step;
  step.kernel = "linear";
  step.bytes = packed.bytes();
  step.density = density(unit);
  step.macs = step.density * static_cast<double>(unit.weights());
  step.run = [state, kernel = binder.kernels().linear](int part, int parts) {
    const Range g = slice(state->packed.groups, part, parts);
    kernel(state->call, g.begin, g.end);
  };
  return step;
}

}  // namespace jcw

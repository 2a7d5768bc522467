// Fully connected layers, and convolutions with one output pixel, as steps.
#include "steps/binder.hpp"

namespace jcw {
namespace {

template <class Packing, class Call>
struct State {
  Packing packed;
  Call call{};
};

// Index into the flattened input of the only pixel that a tap meets.
Address flat_address(const Unit& unit) {
  return [unit](int channel, int tap_y, int tap_x) -> std::int32_t {
    const int y = tap_y * unit.dilation.y - unit.padding.y, x = tap_x * unit.dilation.x - unit.padding.x;
    if (y < 0 || x < 0 || y >= unit.in.height || x >= unit.in.width) return kNowhere;
    return static_cast<std::int32_t>(channel * unit.in.pixels() + y * unit.in.width + x);
  };
}

// Without what is multiplied.
Linear call_of(const Binder& binder, const Operation& o, const std::vector<float>& bias) {
  Linear call{};
  call.in = binder.view(o.reads[0]).data;
  call.out = binder.view(o.write).data;
  call.residual = o.residual >= 0 ? binder.view(o.residual).data : nullptr;
  call.bias = bias.data();
  call.outputs = binder.unit(o).out.channels;
  call.activation = binder.unit(o).activation;
  call.slopes = binder.slopes(binder.unit(o));
  return call;
}

template <class Held, class Kernel>
Step step_of(const char* name, double bytes, std::shared_ptr<Held> state, Kernel kernel) {
  Step step;
  step.kernel = name;
  step.bytes = bytes;
  step.run = [state, kernel](int part, int parts) {
    const Range g = slice(state->packed.groups, part, parts);
    kernel(state->call, g.begin, g.end);
  };
  return step;
}

Step make_floats(const Binder& binder, const Operation& o) {
  auto state = std::make_shared<State<Packed, Linear>>();
  state->packed = pack_sparse(binder.unit(o), 1, flat_address(binder.unit(o)));
  Packed& packed = state->packed;
  const double bytes = packed.bytes();
  state->call = call_of(binder, o, packed.bias);
  state->call.indices = binder.keep(packed.offsets);
  state->call.weights = binder.keep(packed.weights);
  state->call.starts = packed.starts.data();
  return step_of("linear", bytes, state, binder.kernels().linear);
}

Step make_numbers(const Binder& binder, const Operation& o) {
  auto state = std::make_shared<State<PackedNumbers, QuantizedLinear>>();
  state->packed = pack_quantized_linear(binder.unit(o), binder.quantized(), flat_address(binder.unit(o)));
  PackedNumbers& packed = state->packed;
  const double bytes = packed.bytes();
  const auto* weights = reinterpret_cast<const std::int8_t*>(binder.keep(packed.weights));
  state->call = {call_of(binder, o, packed.bias), weights, packed.first.data(), packed.scales.data(), packed.products};
  return step_of("int8 linear", bytes, state, binder.quantized().linear);
}

}  // namespace

Step make_linear(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  Step step = unit.quantized() ? make_numbers(binder, o) : make_floats(binder, o);
  step.density = density(unit);
  step.macs = step.density * static_cast<double>(unit.weights());
  return step;
}

}  // namespace jcw

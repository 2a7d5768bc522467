// Floats to whole numbers, and convolutions of these, as steps.
#include "steps/binder.hpp"

namespace jcw {
namespace {

struct State {
  PackedNumbers packed;
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  QuantizedConvolution call{};
  decltype(QuantizedKernels::convolve) kernel = nullptr;
  int pixel_blocks = 0;
  std::int64_t row = 1;

  void run(int part, int parts) const {
    const Share own = share_of(pixel_blocks, packed.groups, 12, part, parts);
    kernel(call, own.pixels.begin, own.pixels.end, own.groups.begin, own.groups.end);
  }

  void compute(void* out, std::ptrdiff_t plane, Range rows, Range groups) const {
    QuantizedConvolution elsewhere = call;
    elsewhere.target.out = out;
    elsewhere.target.out_plane = plane;
    kernel(elsewhere, static_cast<int>(rows.begin * row / kBlock), static_cast<int>(divide_up(rows.end * row, kBlock)),
           groups.begin, groups.end);
  }
};

}  // namespace

Step make_quantize(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.reads[0]).layout;
  const Tensor& written = binder.tensor(o.write);
  const std::ptrdiff_t lead = static_cast<std::ptrdiff_t>(layout.lead());
  const Quantize call{static_cast<const float*>(binder.view(o.reads[0]).data) - lead,
                      after(binder.view(o.write).data, -lead, written.bytes),
                      binder.rounding(unit, Activation::none)};
  Step step;
  step.kernel = "quantize";
  const auto kernel = written.holds_floats() ? binder.quantized().round : binder.quantized().quantize;
  step.run = [call, kernel, blocks = whole(divide_up(layout.floats(), kBlock))](int part, int parts) {
    const Range own = slice(blocks, part, parts);
    kernel(call, std::ptrdiff_t{own.begin} * kBlock, std::ptrdiff_t{own.end} * kBlock);
  };
  return step;
}

Step make_quantized(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const QuantizedKernels& kernels = binder.quantized();
  auto state = std::make_shared<State>();
  state->packed = pack_quantized(unit, kernels, binder.address(o, binder.tensor(o.reads[0]).layout));
  binder.check_reach(o, state->packed.offsets, 0);
  state->mask = binder.mask(layout);
  state->pixel_blocks = layout.blocks();
  state->row = layout.row;
  state->kernel = kernels.convolve;
  const PackedNumbers& packed = state->packed;
  state->call.target = binder.target(o, layout, unit.out.channels, state->mask->data(), packed.bias.data());
  state->call.in = binder.view(o.reads[0]).data;
  state->call.offsets = packed.offsets.data();
  state->call.weights = packed.weights.data();
  state->call.starts = packed.starts.data();
  state->call.first = packed.first.data();
  state->call.target.scales = packed.scales.data();
  Step step;
  step.kernel = "int8";
  step.bytes = packed.bytes();
  step.run = [state](int part, int parts) { state->run(part, parts); };
  step.groupwise = {packed.groups, kGroup,
                    [state](void* out, std::ptrdiff_t plane, Range rows, Range groups) { state->compute(out, plane, rows, groups); }};
  return step;
}

}  // namespace jcw

// Floats to whole numbers, and convolutions of these, as steps.
#include "steps/binder.hpp"

namespace jcw {
namespace {

// Share of weights from which on all are multiplied, zeros as well, by pixels that are gathered once for all outputs.
constexpr double kWholeFrom = 0.75;

struct State {
  PackedNumbers packed;
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  QuantizedConvolution call{};
  decltype(QuantizedKernels::convolve) kernel = nullptr;
  int pixel_blocks = 0;
  std::int64_t row = 1;
  const Scratch* scratch = nullptr;  // where all groups read all inputs

  void run(int part, int parts) const {
    const Share own = share_of(pixel_blocks, packed.groups, 12, part, parts);
    QuantizedConvolution with = call;
    if (scratch && own.groups.size() > 1) with.gathered = scratch->of(part);
    kernel(with, own.pixels.begin, own.pixels.end, own.groups.begin, own.groups.end);
  }

  void compute(void* out, std::ptrdiff_t plane, Range rows, Range groups) const {
    QuantizedConvolution elsewhere = call;
    elsewhere.target.out = out;
    elsewhere.target.out_plane = plane;
    kernel(elsewhere, static_cast<int>(rows.begin * row / kBlock), static_cast<int>(divide_up(rows.end * row, kBlock)),
           groups.begin, groups.end);
  }
};

struct WindowedState {
  PackedNumbers packed;
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  std::vector<std::byte> keep;
  QuantizedWindowed call{};
};

// Whether a depthwise convolution is one that windowed_numbers computes.
bool only_numbers(const Binder& binder, const Operation& o) {
  const QuantizedKernels& kernels = binder.quantized();
  const int pixels = kernels.inputs * binder.kernels().tuning.width;
  return kernels.windowed_numbers && o.write == o.numbers && o.residual < 0 && binder.tensor(o.write).bytes == kernels.pixel_bytes &&
         binder.tensor(o.write).layout.blocks() * kBlock >= pixels;
}

// Offsets from a pixel of the input to those under the taps of the output that lies there.
Address within_rows(const Unit& unit, const Layout& in) {
  return [&unit, row = in.row](int, int tap_y, int tap_x) {
    return static_cast<std::int32_t>((tap_y - unit.padding.y) * row + tap_x - unit.padding.x);
  };
}

// Throws std::logic_error unless all that vectors of so many pixels read, under every row of the output, lies in memory.
void check_rows(const Unit& unit, const Layout& in, int pixels) {
  const std::int64_t last_row = std::int64_t{unit.out.height - 1} * unit.stride.y + unit.kernel.y - 1 - unit.padding.y;
  const std::int64_t last = last_row * in.row + std::int64_t{unit.out.width - 1} * unit.stride.x + unit.kernel.x + 2 + pixels;
  const std::int64_t read_past = 4 * kBlock;  // as Tensor::floats has it
  if (unit.padding.y * in.row + unit.padding.x > in.lead() ||
      in.lead() + (in.planes - 1) * in.plane + last > in.floats() + read_past / 2)
    throw std::logic_error("unit " + unit.name + " reads out of bounds");
}

// A mask of pixels in their size.
std::vector<std::byte> kept_bytes(const std::vector<std::uint32_t>& mask, int pixel_bytes) {
  std::vector<std::byte> keep;
  for (const std::uint32_t word : mask) keep.insert(keep.end(), static_cast<std::size_t>(pixel_bytes), static_cast<std::byte>(word));
  return keep;
}

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

Step make_quantized(const Binder& binder, const Operation& o, double density) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const QuantizedKernels& kernels = binder.quantized();
  auto state = std::make_shared<State>();
  const bool all = unit.groups == 1 && !unit.transposed && density >= kWholeFrom;
  state->packed = pack_quantized(unit, kernels, binder.address(o, binder.tensor(o.reads[0]).layout), all);
  binder.check_reach(o, state->packed.offsets, 0);
  state->mask = binder.mask(layout);
  state->pixel_blocks = layout.blocks();
  state->row = layout.row;
  state->kernel = kernels.convolve;
  PackedNumbers& packed = state->packed;
  if (all) {
    state->scratch = binder.bound().scratch;
    binder.bound().scratch->reserve(floats_of(packed.starts[1], kernels.gathered_bytes));
  }
  Step step;
  step.kernel = "int8";
  step.bytes = packed.bytes();
  state->call.target = binder.target(o, layout, unit.out.channels, state->mask->data(), packed.bias.data());
  state->call.in = binder.view(o.reads[0]).data;
  state->call.offsets = binder.keep(packed.offsets);
  state->call.weights = binder.keep(packed.weights);
  state->call.starts = packed.starts.data();
  state->call.first = packed.first.data();
  state->call.target.scales = packed.scales.data();
  step.run = [state](int part, int parts) { state->run(part, parts); };
  step.groupwise = {packed.groups, kGroup,
                    [state](void* out, std::ptrdiff_t plane, Range rows, Range groups) { state->compute(out, plane, rows, groups); }};
  return step;
}

Step make_quantized_windowed(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const View in = binder.view(o.reads[0]);
  const Layout& from = binder.tensor(o.reads[0]).layout;
  const QuantizedKernels& kernels = binder.quantized();
  const bool by_two = o.access == Access::by_two, numbers = !by_two && only_numbers(binder, o);
  auto state = std::make_shared<WindowedState>();
  state->packed = pack_quantized_windowed(unit, kernels, by_two ? within_rows(unit, from) : binder.address(o, from));
  PackedNumbers& packed = state->packed;
  const auto planes = static_cast<std::int64_t>(o.phases.size());
  if (by_two)
    check_rows(unit, from, kernels.inputs * binder.kernels().tuning.width);
  else
    for (const int channel : {0, unit.out.channels - 1}) binder.check_reach(o, packed.offsets, channel * planes);
  state->mask = binder.mask(layout);
  if (numbers) state->keep = kept_bytes(*state->mask, kernels.pixel_bytes);
  Step step;
  step.kernel = "int8 depthwise";
  step.bytes = packed.bytes();
  QuantizedWindowed& call = state->call;
  call.target = binder.target(o, layout, unit.out.channels, state->mask->data(), packed.bias.data());
  call.target.scales = packed.scales.data();
  call.in = in.data;
  call.in_plane = in.plane * static_cast<std::ptrdiff_t>(planes);
  call.offsets = packed.offsets.data();
  call.weights = binder.keep(packed.weights);
  call.first = packed.first.data();
  call.keep = state->keep.data();
  call.products = packed.products;
  call.in_row = in.row;
  call.out_row = static_cast<std::ptrdiff_t>(layout.row);
  call.width = layout.width;
  const auto kernel = by_two ? kernels.windowed_by_two : numbers ? kernels.windowed_numbers : kernels.windowed;
  step.run = [state, kernel, extent = by_two ? layout.height : layout.blocks(), channels = unit.out.channels](int part, int parts) {
    const Range own = slice(channels, part, parts);
    kernel(state->call, 0, extent, own.begin, own.end);
  };
  return step;
}

}  // namespace jcw

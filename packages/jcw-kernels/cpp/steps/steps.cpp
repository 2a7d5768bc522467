// Making the steps of all operations, and clearing padding between them.
#include "steps/steps.hpp"

#include <algorithm>

#include "steps/binder.hpp"

namespace jcw {
namespace {

// True when the tap lands on a real pixel for some output.
bool meets(int tap, int padding, int stride, int in, int out) {
  const int first = std::max(padding - tap + stride - 1, 0) / stride;  // output for which it is not before the input
  return first < out && first * stride + tap - padding < in;
}

Step make_step(const Binder& binder, const Operation& o) {
  switch (o.kind) {
    case Kind::convolution: return make_convolution(binder, o);
    case Kind::narrow: return make_narrow(binder, o);
    case Kind::quantize: return make_quantize(binder, o);
    case Kind::windowed: return o.first.empty() ? make_windowed(binder, o) : make_pair(binder, o);
    case Kind::linear: return make_linear(binder, o);
    case Kind::elementwise: return make_elementwise(binder, o);
    case Kind::global_mean: return make_global_mean(binder, o);
    case Kind::relayout: if (o.stride != Pair{1, 1}) return make_phases(binder, o); break;
    case Kind::portable: return make_portable(binder, o);
    case Kind::concat: break;
  }
  return make_copies(binder, o);
}

// True when whatever writes the tensor also writes the ends of its rows.
bool ends_rows(const Operation& o, const Step& step) {
  if (step.leaves_ends) return false;
  return o.kind == Kind::convolution || o.kind == Kind::windowed || o.kind == Kind::elementwise;
}

// Rows and columns that the operation writes of each of its planes per channel: in odd sizes, the later phases of
// a stride have one less.
std::vector<Pair> extents(const Binder& binder, const Operation& o) {
  const Tensor& tensor = binder.tensor(o.write);
  if (o.kind != Kind::relayout) return {{tensor.layout.height, tensor.layout.width}};
  const auto count = [](int size, int phase, int stride) { return divide_up(size - phase, stride); };
  std::vector<Pair> all;
  for (const Phase& phase : o.phases)
    all.push_back({count(tensor.shape.height, phase.y, o.stride.y), count(tensor.shape.width, phase.x, o.stride.x)});
  return all;
}

template <class Pixel>
void clear_planes(const Layout& layout, const std::vector<Pair>& written, Pixel* data, Range planes, bool rows, Pixel zero) {
  for (std::int64_t p = planes.begin; p < planes.end; ++p) {
    const Pair size = written[static_cast<std::size_t>(p) % written.size()];
    Pixel* const plane = data + p * layout.plane;
    std::fill(plane + layout.run(), plane + layout.plane, zero);
    if (!rows) continue;
    for (std::int64_t y = 0; y < layout.height; ++y)
      std::fill(plane + y * layout.row + (y < size.y ? size.x : 0), plane + (y + 1) * layout.row, zero);
  }
}

// Has a step clear the padding of an output first, which shares memory with tensors that lie otherwise.
template <class Pixel>
void clear_padding(Step& step, const Layout& layout, const std::vector<Pair>& written, Pixel* data, bool rows, Pixel zero) {
  step.clear = [layout, written, data, rows, zero, before = step.clear](int part, int parts) {
    if (before) before(part, parts);
    Pixel* const begin = data - layout.lead();
    if (part == 0) std::fill(begin, data, zero);
    clear_planes(layout, written, data, slice(layout.planes, part, parts), rows, zero);
    if (part == parts - 1) std::fill(data + layout.planes * layout.plane, begin + layout.floats(), zero);
  };
}

void clear_padding(Step& step, const Binder& binder, const Operation& o, int t) {
  const Tensor& tensor = binder.tensor(t);
  const auto clear = [&](auto* data, auto zero) {
    clear_padding(step, tensor.layout, extents(binder, o), data, !ends_rows(o, step), zero);
  };
  void* const data = binder.view(t).data;
  if (tensor.half) return clear(static_cast<Half*>(data), half_of_float(0.0f));
  if (tensor.holds_floats()) return clear(static_cast<float*>(data), 0.0f);
  if (tensor.bytes == 1) return clear(static_cast<std::uint8_t*>(data), static_cast<std::uint8_t>(tensor.zero));
  clear(static_cast<std::int16_t*>(data), static_cast<std::int16_t>(tensor.zero));
}

double activation_bytes(const Lowered& lowered, const Operation& o) {
  double bytes = 0;
  const auto add = [&](int t) {
    const Tensor& tensor = lowered.tensors[static_cast<std::size_t>(t)];
    bytes += static_cast<double>(tensor.layout.planes) * static_cast<double>(tensor.layout.run()) * tensor.bytes;
  };
  for (const int t : o.inputs()) add(t);
  for (const int t : o.outputs()) add(t);
  return bytes;
}

}  // namespace

Address Binder::address(const Operation& o, const Layout& in) const {
  const Unit& u = unit(o);
  const bool padding_counts = u.op == Op::max_pool;
  return [u, in, phases = o.phases, padding_counts](int channel, int row, int column) -> std::int32_t {
    const int tap_y = row * u.dilation.y, tap_x = column * u.dilation.x;
    if (!padding_counts && (!meets(tap_y, u.padding.y, u.stride.y, u.in.height, u.out.height) ||
                            !meets(tap_x, u.padding.x, u.stride.x, u.in.width, u.out.width)))
      return kNowhere;
    const Tap y = Tap::of(tap_y, u.padding.y, u.stride.y), x = Tap::of(tap_x, u.padding.x, u.stride.x);
    const auto phase = std::lower_bound(phases.begin(), phases.end(), Phase{y.phase, x.phase}) - phases.begin();
    const std::int64_t plane = channel * static_cast<std::int64_t>(phases.size()) + phase;
    return static_cast<std::int32_t>(plane * in.plane + y.shift * in.row + x.shift);
  };
}

void Binder::check_reach(const Operation& o, const std::vector<std::int32_t>& offsets, std::int64_t first_plane) const {
  const Layout& in = tensor(o.reads[0]).layout;
  const Layout& out = tensor(o.write).layout;
  const std::int64_t pixels = std::int64_t{out.blocks()} * out.block;
  for (const std::int32_t offset : offsets) {
    const std::int64_t first = in.lead() + first_plane * in.plane + offset;
    if (first < 0 || first + pixels > in.floats()) throw std::logic_error("unit " + unit(o).name + " reads out of bounds");
  }
}

std::vector<Step> make_steps(const Bound& bound) {
  const Binder binder(bound);
  std::vector<Step> steps;
  for (const Operation& o : bound.lowered->operations) {
    steps.push_back(make_step(binder, o));
    for (const int t : o.outputs())  // `quantize` writes all that pads its output
      if (bound.plan->dirty[static_cast<std::size_t>(t)] && o.kind != Kind::quantize) clear_padding(steps.back(), binder, o, t);
    steps.back().unit = o.first.empty() ? o.unit : o.first.front().unit;
    steps.back().bytes += activation_bytes(*bound.lowered, o);
  }
  return steps;
}

}  // namespace jcw

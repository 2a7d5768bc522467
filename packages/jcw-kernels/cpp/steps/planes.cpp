// Element-wise operations, copies between layouts and means as steps.
#include <algorithm>

#include "steps/bands.hpp"

namespace jcw {
namespace {

struct State {
  std::shared_ptr<std::vector<std::uint32_t>> mask;
  Elementwise call{};
};

Binary binary_of(const Unit& unit, bool scales) {
  if (unit.op == Op::add) return Binary::add;
  if (unit.op == Op::mul) return scales ? Binary::scale : Binary::mul;
  return Binary::copy;
}

// One copy of planes: which input, and where in the output it goes.
struct Copy {
  int from;
  Relayout call;
  int channels;
};

// The copy of one input into the output from its pixel `written` on.
Copy copy_of(const Binder& binder, const Operation& o, int from, std::ptrdiff_t written) {
  const Tensor& source = binder.tensor(from);
  const Shape& shape = source.shape;
  const View in = binder.view(from), out = binder.view(o.write);
  void* const to = after(out.data, written, binder.pixel_bytes());
  Copy copy{from, {in.data, to, in.plane, in.row, out.plane, out.row, shape.height, shape.width}, shape.channels};
  if (!binder.tensor(o.write).flat) return copy;
  // A flattened tensor is dense, so its planes lie as those of its source do.
  copy.call.out_plane = static_cast<std::ptrdiff_t>(shape.pixels());
  copy.call.out_row = shape.width;
  if (!source.flat) return copy;
  // Both are dense: one row.
  copy.call.out_plane = copy.call.width = static_cast<int>(shape.size());
  copy.call.height = copy.channels = 1;
  return copy;
}

std::vector<Copy> copies_of(const Binder& binder, const Operation& o) {
  std::vector<Copy> copies;
  std::ptrdiff_t written = 0;
  for (const int from : o.reads) {
    copies.push_back(copy_of(binder, o, from, written));
    written += copies.back().channels * copies.back().call.out_plane;
  }
  return copies;
}

}  // namespace

Step make_elementwise(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const Layout& layout = binder.tensor(o.write).layout;
  const bool flat = binder.tensor(o.write).flat;
  const int channels = flat ? 1 : unit.out.channels;
  const bool scales = o.reads.size() == 2 && binder.tensor(o.reads[1]).flat && !flat;
  auto state = std::make_shared<State>();
  state->mask = binder.mask(layout);
  state->call.target = binder.target(o, layout, channels, state->mask->data(), nullptr);
  const int b = o.reads.back();
  state->call.a = binder.view(o.reads[0]).data;
  state->call.a_plane = static_cast<std::ptrdiff_t>(binder.tensor(o.reads[0]).layout.plane);
  state->call.b = binder.view(b).data;
  state->call.b_plane = scales ? 1 : static_cast<std::ptrdiff_t>(binder.tensor(b).layout.plane);
  state->call.op = binary_of(unit, scales);
  Step step;
  step.kernel = "elementwise";
  step.run = [state, kernel = binder.kernels().elementwise, blocks = layout.blocks(), channels](int part, int parts) {
    const Range p = slice(blocks, part, parts);
    kernel(state->call, p.begin, p.end, 0, channels);
  };
  return step;
}

Step make_phases(const Binder& binder, const Operation& o) {
  const Tensor& in = binder.tensor(o.reads[0]);
  const Tensor& out = binder.tensor(o.write);
  const View to = binder.view(o.write);
  Split call = split_of(binder, o);
  call.out = to.data;
  call.out_plane = to.plane;
  call.out_row = to.row;
  call.fill = out.fill;
  Step step;
  step.kernel = "copy";
  step.run = [call, phases = split_phases(o, in.shape), pixels = readable(in), rows = out.layout.height,
              channels = in.shape.channels, kernel = binder.kernels().split_phases, bytes = binder.pixel_bytes(),
              image = binder.bound().image](int part, int parts) {
    Split split = call;
    if (!split.in) split.in = *image;
    split.end = after(split.in, pixels, bytes);
    split.phases = phases.data();
    split.count = static_cast<int>(phases.size());
    const Range c = slice(channels, part, parts);
    kernel(split, 0, rows, c.begin, c.end);
  };
  return step;
}

Step make_narrow(const Binder& binder, const Operation& o) {
  Step step;
  step.kernel = "copy";
  step.run = [out = binder.view(o.write).data, kernel = binder.kernels().narrow, image = binder.bound().image,
              pixels = binder.tensor(o.write).shape.size()](int part, int parts) {
    const Range own = slice(whole(divide_up(pixels, kBlock)), part, parts);
    kernel(*image, out, std::int64_t{own.begin} * kBlock, std::min(std::int64_t{own.end} * kBlock, pixels));
  };
  return step;
}

Step make_copies(const Binder& binder, const Operation& o) {
  Step step;
  step.kernel = "copy";
  step.run = [copies = copies_of(binder, o), kernel = binder.kernels().relayout, image = binder.bound().image](
                 int part, int parts) {
    for (const Copy& copy : copies) {
      Relayout call = copy.call;
      if (!call.in) call.in = *image;
      const Range c = slice(copy.channels, part, parts);
      kernel(call, c.begin, c.end);
    }
  };
  return step;
}

Step make_global_mean(const Binder& binder, const Operation& o) {
  const Tensor& in = binder.tensor(o.reads[0]);
  const View view = binder.view(o.reads[0]);
  const int run = static_cast<int>(in.flat ? in.shape.pixels() : in.layout.blocks() * in.layout.block);
  const GlobalMean call{view.data, binder.view(o.write).data, view.plane, run, static_cast<int>(in.shape.pixels())};
  Step step;
  step.kernel = "mean";
  step.run = [call, kernel = binder.kernels().global_mean, channels = in.shape.channels](int part, int parts) {
    const Range c = slice(channels, part, parts);
    kernel(call, c.begin, c.end);
  };
  return step;
}

}  // namespace jcw

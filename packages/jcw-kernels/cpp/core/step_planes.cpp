// Element-wise operations, copies between layouts and means as steps.
#include <algorithm>

#include "binder.hpp"

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

Relayout copy_call(const Binder& binder, const Operation& o, int from, Phase phase) {
  const View in = binder.view(from), out = binder.view(o.write);
  const Shape& shape = binder.tensor(from).shape;
  Relayout call{};
  call.in = in.data;
  call.in_plane = in.plane;
  call.in_row = in.row;
  call.out = out.data;
  call.out_plane = out.plane;
  call.out_row = out.row;
  call.height = shape.height;
  call.width = shape.width;
  call.stride_y = o.kind == Kind::relayout ? o.stride.y : 1;
  call.stride_x = o.kind == Kind::relayout ? o.stride.x : 1;
  call.phase_y = phase.y;
  call.phase_x = phase.x;
  return call;
}

// Dense tensors are copied as one row.
Relayout flat_copy_call(const Binder& binder, const Operation& o, int from, std::ptrdiff_t written) {
  Relayout call = copy_call(binder, o, from, {0, 0});
  call.out += written;
  call.height = 1;
  call.width = static_cast<int>(binder.tensor(from).shape.size());
  return call;
}

std::vector<Copy> copies_of(const Binder& binder, const Operation& o) {
  std::vector<Copy> copies;
  std::ptrdiff_t written = 0;
  for (const int from : o.reads) {
    const Tensor& source = binder.tensor(from);
    const int channels = source.shape.channels;
    if (source.flat && binder.tensor(o.write).flat) {
      copies.push_back({from, flat_copy_call(binder, o, from, written), 1});
      written += static_cast<std::ptrdiff_t>(source.shape.size());
      continue;
    }
    for (std::size_t p = 0; p < o.phases.size(); ++p) {
      Relayout call = copy_call(binder, o, from, o.phases[p]);
      // A flattened tensor is dense, so its planes lie as those of its source do.
      if (binder.tensor(o.write).flat) {
        call.out_plane = static_cast<std::ptrdiff_t>(source.shape.pixels());
        call.out_row = call.width;
      }
      call.out += written + static_cast<std::ptrdiff_t>(p) * call.out_plane;
      const bool pair = call.stride_x == 2 && p + 1 < o.phases.size() && o.phases[p + 1] == Phase{o.phases[p].y, 1} &&
                        o.phases[p].x == 0;
      if (pair) {
        call.odd = call.out + call.out_plane;
        ++p;
      }
      call.out_plane *= static_cast<std::ptrdiff_t>(o.phases.size());
      copies.push_back({from, call, channels});
    }
    written += channels * copies.back().call.out_plane;
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
  const int run = static_cast<int>(in.flat ? in.shape.pixels() : in.layout.blocks() * kBlock);
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

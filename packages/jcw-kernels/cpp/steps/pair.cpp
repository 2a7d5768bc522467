// A 1 x 1 convolution together with the depthwise one of stride 2 that alone reads its output: a few channels at a time,
// which are still in cache when they are read. They never are in memory as a whole.
#include <algorithm>

#include "steps/binder.hpp"

namespace jcw {
namespace {

// Bytes that a band may take of the planes between the two and of the first one's input: a second-level cache of 1 MB.
constexpr double kBetweenBytes = 200e3, kInputBytes = 800e3;

struct State {
  Groupwise convolution;
  FromPlanes depthwise;
  Layout between;  // the planes of `groups` groups for the largest band
  Scratch* scratch = nullptr;
  int channels = 0, height = 0, stride = 1, padding = 0, reach = 0;
  int in_height = 0, band_rows = 0, groups = 0, pixel_bytes = 0;

  // Rows of the planes between that rows of the output read.
  Range rows_of(Range out) const {
    return {std::max(0, out.begin * stride - padding), std::min((out.end - 1) * stride + reach, in_height)};
  }

  void run(int part, int parts) const {
    const Range own = slice(convolution.groups, part, parts);
    in_bands({0, height}, band_rows, [&](Range out) { run_band(out, own, scratch->of(part)); });
  }

  void run_band(Range out, Range own, void* memory) const {
    const Range rows = rows_of(out);
    const std::int64_t first = rows.begin * between.row;
    void* const begin = after(memory, between.lead() + first % between.block, pixel_bytes);
    clear(begin, memory, rows.size());
    for (int group = own.begin; group < own.end; group += groups) {
      const Range some{group, std::min(group + groups, own.end)};
      const Range c{some.begin * convolution.channels, std::min(some.end * convolution.channels, channels)};
      void* const origin = after(begin, -first - c.begin * between.plane, pixel_bytes);
      convolution.compute(origin, between.plane, rows, some);
      depthwise(origin, between.plane, out, c);
    }
  }

  void clear(void* begin, void* memory, int rows) const {
    const auto zero = [](void* from, void* to) { std::fill(static_cast<std::byte*>(from), static_cast<std::byte*>(to), std::byte{0}); };
    const auto pixel = [&](std::int64_t i) { return after(begin, i, pixel_bytes); };
    zero(memory, begin);
    for (int p = 0; p < between.planes; ++p) zero(pixel(p * between.plane + rows * between.row), pixel((p + 1) * between.plane));
    zero(pixel(between.planes * between.plane), after(memory, between.floats() + between.block, pixel_bytes));
  }
};

int times(double bytes, double each) { return std::max(1, static_cast<int>(bytes / each)); }

void choose_sizes(State& state, const Layout& in, const Tensor& between) {
  const double row = static_cast<double>(state.pixel_bytes) * static_cast<double>(in.row);
  const int by_plane = times(kBetweenBytes, row * state.convolution.channels), by_input = times(kInputBytes, row * in.planes);
  state.band_rows = std::max(1, (std::min(by_plane, by_input) - state.reach - state.padding) / state.stride + 1);
  state.band_rows = divide_up(state.height, divide_up(state.height, state.band_rows));
  const int rows = std::min((state.band_rows - 1) * state.stride + state.reach + state.padding, state.in_height);
  state.groups = std::min(times(kBetweenBytes, row * state.convolution.channels * rows), state.convolution.groups);
  // Whole blocks are written, so a band's planes begin and end with pixels of the rows around them.
  state.between = Layout::padded(in.block, state.groups * state.convolution.channels, rows, between.shape.width, in.row,
                                 between.pad_rows, between.pad_columns + in.block);
}

}  // namespace

Step make_pair(const Binder& binder, const Operation& o) {
  const Operation& first = o.first.front();
  const Unit& unit = binder.unit(o);
  Step step = make_tiled_convolution(binder, first);
  auto state = std::make_shared<State>();
  state->convolution = std::move(step.groupwise);
  state->channels = unit.out.channels;
  state->height = unit.out.height;
  state->in_height = unit.in.height;
  state->stride = unit.stride.y;
  state->padding = unit.padding.y;
  state->reach = unit.kernel.y - unit.padding.y;
  state->pixel_bytes = binder.pixel_bytes();
  choose_sizes(*state, binder.tensor(first.reads[0]).layout, binder.tensor(first.write));
  state->depthwise = from_planes(binder, o, state->between);
  state->scratch = binder.bound().scratch;
  state->scratch->reserve(floats_of(state->between.floats() + state->between.block, state->pixel_bytes));
  step.kernel += "+depthwise";
  step.macs += static_cast<double>(unit.out.size()) * unit.taps();
  step.bytes += static_cast<double>(unit.weight.size()) * sizeof(float);
  step.run = [state](int part, int parts) { state->run(part, parts); };
  return step;
}

}  // namespace jcw

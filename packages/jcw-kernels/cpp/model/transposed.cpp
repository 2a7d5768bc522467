#include "model/transposed.hpp"

#include <algorithm>
#include <utility>

#include "base/ranges.hpp"

namespace jcw {
namespace {

constexpr std::int64_t kMostGrowth = 8;  // times the weights, zeros included

// One axis. The outputs stride * j + phase, j from 0 to before `outputs`, read inputs from j - before to j - before + span - 1.
struct Axis {
  int stride, dilation, padding, taps, outputs;
  int before = 0, after = 0, span = 0;  // padding of the ordinary convolution, and its window

  Axis(int in, int out, int step, int dilated, int pad, int count)
      : stride(step), dilation(dilated), padding(pad), taps(count), outputs(divide_up(out, step)) {
    int last = in - outputs;  // as no padding is less than 0
    for (int tap = 0; tap < taps; ++tap) {
      before = std::max(before, -shift(tap));
      last = std::max(last, shift(tap));
    }
    after = last + outputs - in;
    span = before + last + 1;
  }

  // Of the only outputs that a tap adds to.
  int phase(int tap) const { return ((tap * dilation - padding) % stride + stride) % stride; }
  // The input that it reads for them, less j.
  int shift(int tap) const { return (phase(tap) + padding - tap * dilation) / stride; }
  int place(int tap) const { return shift(tap) + before; }
};

struct Parts {
  Unit convolution, shuffle;
};

Axis rows_of(const Unit& u) { return {u.in.height, u.out.height, u.stride.y, u.dilation.y, u.padding.y, u.kernel.y}; }
Axis columns_of(const Unit& u) { return {u.in.width, u.out.width, u.stride.x, u.dilation.x, u.padding.x, u.kernel.x}; }

bool splits(const Unit& u) {
  if (u.op != Op::conv_transpose2d) return false;
  const Axis rows = rows_of(u), columns = columns_of(u);
  const std::int64_t phases = times(u.stride.y, u.stride.x), channels = times(u.out_channels, phases);
  const std::int64_t weights = times(phases, times(rows.span, columns.span));
  return channels <= kLargestSize && weights <= kMostGrowth * u.taps() &&
         times(times(u.out_channels, u.in.channels / u.groups), weights) <= kLargestTensor &&
         times(channels, times(rows.outputs, columns.outputs)) <= kLargestTensor;
}

Parts split(const Unit& u) {
  const Axis rows = rows_of(u), columns = columns_of(u);
  const int phases = u.stride.y * u.stride.x, each = u.out_channels / u.groups, inputs = u.in.channels / u.groups;
  Unit made = u;
  made.op = Op::conv2d;
  made.transposed = u.weights();
  made.out_channels *= phases;
  made.kernel = {rows.span, columns.span};
  made.stride = made.dilation = {1, 1};
  made.padding = {rows.before, columns.before};
  made.padding_end = {rows.after, columns.after};
  made.output_padding = {0, 0};
  made.out = {made.out_channels, rows.outputs, columns.outputs};
  made.bias.assign(static_cast<std::size_t>(made.out_channels), 0.0f);
  made.weight.assign(static_cast<std::size_t>(made.weights()), 0.0f);
  const auto channel_of = [&](int channel, int phase) { return (channel / each * phases + phase) * each + channel % each; };
  const float* weight = u.weight.data();
  for (int c = 0; c < u.out_channels; ++c) {
    for (int phase = 0; phase < phases; ++phase)
      made.bias[static_cast<std::size_t>(channel_of(c, phase))] = u.bias[static_cast<std::size_t>(c)];
    for (int i = 0; i < inputs; ++i)
      for (int y = 0; y < rows.taps; ++y)
        for (int x = 0; x < columns.taps; ++x) {
          const std::int64_t plane = std::int64_t{channel_of(c, rows.phase(y) * u.stride.x + columns.phase(x))} * inputs + i;
          const std::int64_t at = (plane * rows.span + rows.place(y)) * columns.span + columns.place(x);
          made.weight[static_cast<std::size_t>(at)] = *weight++;
        }
  }
  Unit shuffle;
  shuffle.name = u.name;
  shuffle.op = Op::pixel_shuffle;
  shuffle.scale = u.stride;
  shuffle.phase_channels = each;
  shuffle.in = made.out;
  shuffle.out = u.out;
  return {std::move(made), std::move(shuffle)};
}

}  // namespace

void split_transposed(Model& model) {
  std::vector<Unit> units;
  std::vector<int> tensors = {0};  // where each is now
  const auto moved = [&](int tensor) { return tensors[static_cast<std::size_t>(tensor)]; };
  for (Unit& unit : model.units) {
    std::transform(unit.inputs.begin(), unit.inputs.end(), unit.inputs.begin(), moved);
    if (unit.residual >= 0) unit.residual = moved(unit.residual);
    if (splits(unit)) {
      Parts parts = split(unit);
      units.push_back(std::move(parts.convolution));
      parts.shuffle.inputs = {static_cast<int>(units.size())};
      units.push_back(std::move(parts.shuffle));
    } else {
      units.push_back(std::move(unit));
    }
    tensors.push_back(static_cast<int>(units.size()));
  }
  model.output = moved(model.output);
  model.units = std::move(units);
}

}  // namespace jcw

// Shape inference of all operations.
#include "model/shapes.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace jcw {
namespace {

std::string shown(const Shape& s) {
  return std::to_string(s.channels) + " x " + std::to_string(s.height) + " x " + std::to_string(s.width);
}

[[noreturn]] void fail(const Unit& unit, const std::string& what) {
  throw FormatError("unit " + unit.name + ": " + what);
}

int window(const Unit& unit, int size, int kernel, int stride, int padding) {  // of both ends
  const int room = size + padding - kernel;
  if (room < 0) fail(unit, "the window is larger than its padded input");
  return room / stride + 1;
}

Shape windowed(const Unit& unit, int channels) {
  const Pair span = unit.span();
  return {channels, window(unit, unit.in.height, span.y, unit.stride.y, unit.padding.y + unit.padding_end.y),
          window(unit, unit.in.width, span.x, unit.stride.x, unit.padding.x + unit.padding_end.x)};
}

void check_groups(const Unit& unit) {
  if (unit.in.channels % unit.groups || unit.out_channels % unit.groups) fail(unit, "channels do not divide into groups");
}

Shape transposed(const Unit& unit) {
  check_groups(unit);
  const Pair span = unit.span(), more = unit.output_padding;
  if (more.y >= std::max(unit.stride.y, unit.dilation.y) || more.x >= std::max(unit.stride.x, unit.dilation.x))
    fail(unit, "output_padding is no less than the stride and the dilation");
  const auto made = [](int size, int stride, int reach, int padding, int added) {
    return std::int64_t{size - 1} * stride + reach - padding + added;
  };
  const std::int64_t height = made(unit.in.height, unit.stride.y, span.y, unit.padding.y + unit.padding_end.y, more.y);
  const std::int64_t width = made(unit.in.width, unit.stride.x, span.x, unit.padding.x + unit.padding_end.x, more.x);
  if (height < 1 || width < 1) fail(unit, "the padding leaves nothing of the output");
  if (height > 1 << 28 || width > 1 << 28 || height * width > 1 << 28) fail(unit, "too many pixels");
  return {unit.out_channels, static_cast<int>(height), static_cast<int>(width)};
}

void check_pool_padding(const Unit& unit) {
  if (unit.padding == unit.padding_end && (unit.padding.y * 2 > unit.kernel.y || unit.padding.x * 2 > unit.kernel.x))
    fail(unit, "the padding is more than half the window");
  if (std::max(unit.padding.y, unit.padding_end.y) >= unit.kernel.y && unit.padding != unit.padding_end)
    fail(unit, "the padding is as wide as the window");
  if (std::max(unit.padding.x, unit.padding_end.x) >= unit.kernel.x && unit.padding != unit.padding_end)
    fail(unit, "the padding is as wide as the window");
}

Shape concatenated(const Model& model, const Unit& unit) {
  Shape out = unit.in;
  std::int64_t channels = 0;
  for (int input : unit.inputs) {
    const Shape& shape = model.shape(input);
    if (shape.height != out.height || shape.width != out.width) fail(unit, "inputs differ in height or width");
    channels += shape.channels;
  }
  if (channels > 1 << 20) fail(unit, "too many channels");
  out.channels = static_cast<int>(channels);
  return out;
}

Shape inferred(const Model& model, const Unit& unit) {
  switch (unit.op) {
    case Op::conv2d:
      check_groups(unit);
      return windowed(unit, unit.out_channels);
    case Op::conv_transpose2d: return transposed(unit);
    case Op::linear:
      if (unit.in.pixels() != 1) fail(unit, "the input is " + shown(unit.in) + ", expected it flat");
      return {unit.out_channels, 1, 1};
    case Op::max_pool: case Op::avg_pool:
      // A window that lies in the padding has no maximum, and its mean says nothing.
      check_pool_padding(unit);
      return windowed(unit, unit.in.channels);
    case Op::global_avg_pool: return {unit.in.channels, 1, 1};
    case Op::flatten:
      if (unit.in.size() > 1 << 28) fail(unit, "too many features");
      return {static_cast<int>(unit.in.size()), 1, 1};
    case Op::concat: return concatenated(model, unit);
    case Op::slice:
      if (unit.start + std::int64_t{unit.out_channels} > unit.in.channels) fail(unit, "takes channels that its input lacks");
      return {unit.out_channels, unit.in.height, unit.in.width};
    case Op::channel_shuffle:
      if (unit.in.channels % unit.groups) fail(unit, "channels do not divide into groups");
      break;
    case Op::resize_nearest: case Op::resize_bilinear: {
      const bool sized = unit.size != Pair{0, 0};
      const std::int64_t height = sized ? unit.size.y : std::int64_t{unit.in.height} * unit.scale.y;
      const std::int64_t width = sized ? unit.size.x : std::int64_t{unit.in.width} * unit.scale.x;
      if (height * width > 1 << 28) fail(unit, "too many pixels");
      return {unit.in.channels, static_cast<int>(height), static_cast<int>(width)};
    }
    case Op::pixel_shuffle: {
      const std::int64_t square = std::int64_t{unit.scale.y} * unit.scale.y;
      if (unit.scale.x != unit.scale.y || unit.in.channels % square) fail(unit, "channels do not divide into squares");
      return {static_cast<int>(unit.in.channels / square), unit.in.height * unit.scale.y, unit.in.width * unit.scale.y};
    }
    case Op::activation: case Op::add: case Op::mul: case Op::clip: case Op::leaky_relu: case Op::elu: case Op::prelu:
    case Op::softmax: break;
  }
  return unit.in;
}

}  // namespace

void infer_shapes(const Model& model, Unit& unit) {
  const std::size_t arity = unit.op == Op::add || unit.op == Op::mul ? 2 : 1;
  if (unit.inputs.empty() || (unit.op != Op::concat && unit.inputs.size() != arity))
    fail(unit, "has " + std::to_string(unit.inputs.size()) + " inputs");
  unit.in = model.shape(unit.inputs[0]);
  unit.out = inferred(model, unit);
  if (arity == 2) {
    const Shape& second = model.shape(unit.inputs[1]);
    const bool scales = unit.op == Op::mul && second == Shape{unit.in.channels, 1, 1};
    if (second != unit.in && !scales) fail(unit, "inputs are " + shown(unit.in) + " and " + shown(second));
  }
  if (unit.residual >= 0 && model.shape(unit.residual) != unit.out)
    fail(unit, "the residual is " + shown(model.shape(unit.residual)) + ", the output " + shown(unit.out));
}

}  // namespace jcw

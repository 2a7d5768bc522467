// Operations without kernels of their own, by plain loops that are the same on every machine.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "steps/binder.hpp"

namespace jcw {
namespace {

// The two pixels between which one of a resized plane lies along one axis, and how far from the first one; the nearest is the
// first. Numbers are rounded as torch does.
struct Between {
  int first, second;
  float share;

  static std::vector<Between> pixels(const Unit& unit, int scale, int size, int made) {
    const auto ratio = [](int a, int b) { return static_cast<float>(a) / static_cast<float>(b); };
    const float step = !unit.align_corners ? ratio(size, made) : made > 1 ? ratio(size - 1, made - 1) : 0.0f;
    std::vector<Between> found;
    for (int out = 0; out < made; ++out) {
      const float pixel = static_cast<float>(out);
      const bool edges = unit.op == Op::resize_nearest || unit.align_corners;
      const float at = edges ? pixel * step : std::max((pixel + 0.5f) * step - 0.5f, 0.0f);
      const bool whole = unit.op == Op::resize_nearest && size * scale == made;
      const int first = whole ? out / scale : std::min(static_cast<int>(at), size - 1);
      found.push_back({first, std::min(first + 1, size - 1), at - static_cast<float>(first)});
    }
    return found;
  }
};

// Where an operation reads and writes, and what it is.
struct Call {
  View in, out;
  Unit unit;
  std::vector<Between> rows = {}, columns = {};  // of a resizing operation

  const float* source(int channel, int y) const { return static_cast<const float*>(in.data) + channel * in.plane + y * in.row; }
  float* target(int channel, int y) const { return static_cast<float*>(out.data) + channel * out.plane + y * out.row; }
};

using Body = void (*)(const Call&, Range);

// Calls value(x, channel) for every pixel of some channels.
template <class Value>
void pointwise(const Call& call, Range channels, const Value& value) {
  for (int c = channels.begin; c < channels.end; ++c)
    for (int y = 0; y < call.unit.out.height; ++y) {
      const float* const from = call.source(c, y);
      std::transform(from, from + call.unit.out.width, call.target(c, y), [&](float x) { return value(x, c); });
    }
}

void clip(const Call& call, Range channels) {
  pointwise(call, channels, [&](float x, int) { return std::min(std::max(x, call.unit.low), call.unit.high); });
}

void elu(const Call& call, Range channels) {
  pointwise(call, channels, [&](float x, int) { return x < 0 ? call.unit.slope * std::expm1(x) : x; });
}

void prelu(const Call& call, Range channels) {
  pointwise(call, channels, [&](float x, int c) { return x < 0 ? x * call.unit.weight[static_cast<std::size_t>(c)] : x; });
}

// Channel `from` of the input into channel `to` of the output.
void copy_plane(const Call& call, int from, int to) {
  for (int y = 0; y < call.unit.out.height; ++y) std::copy_n(call.source(from, y), call.unit.out.width, call.target(to, y));
}

void slice_channels(const Call& call, Range channels) {
  for (int c = channels.begin; c < channels.end; ++c) copy_plane(call, call.unit.start + c, c);
}

void shuffle(const Call& call, Range channels) {
  const int groups = call.unit.groups, each = call.unit.in.channels / groups;
  for (int c = channels.begin; c < channels.end; ++c) copy_plane(call, c % groups * each + c / groups, c);
}

void resize_nearest(const Call& call, Range channels) {
  for (int c = channels.begin; c < channels.end; ++c)
    for (int y = 0; y < call.unit.out.height; ++y) {
      const float* const from = call.source(c, call.rows[static_cast<std::size_t>(y)].first);
      const auto value = [&](const Between& x) { return from[x.first]; };
      std::transform(call.columns.begin(), call.columns.end(), call.target(c, y), value);
    }
}

// Every `step`-th pixel of a row, of `width`, from `to` on. The compiler makes vectors of steps that it knows.
template <int known = 0>
void spread(const float* from, float* to, int width, int step) {
  if constexpr (known != 0) step = known;
  for (int x = 0; x < divide_up(width, step); ++x) to[x * step] = from[x];
}

void pixel_shuffle(const Call& call, Range channels) {
  const Unit& u = call.unit;
  const int rows = u.scale.y, columns = u.scale.x, each = u.phase_channels;
  for (int c = channels.begin; c < channels.end; ++c)
    for (int y = 0; y < u.out.height; ++y)
      for (int x = 0; x < std::min(columns, u.out.width); ++x) {
        const int phase = c / each * rows * columns + y % rows * columns + x;
        const float* const from = call.source(phase * each + c % each, y / rows);
        (columns == 2 ? spread<2> : spread<>)(from, call.target(c, y) + x, u.out.width - x, columns);
      }
}

void resize_bilinear(const Call& call, Range channels) {
  for (int c = channels.begin; c < channels.end; ++c)
    for (int y = 0; y < call.unit.out.height; ++y) {
      const Between& rows = call.rows[static_cast<std::size_t>(y)];
      const float* const above = call.source(c, rows.first);
      const float* const below = call.source(c, rows.second);
      std::transform(call.columns.begin(), call.columns.end(), call.target(c, y), [&](const Between& x) {
        const auto mixed = [&](const float* row) { return row[x.first] + (row[x.second] - row[x.first]) * x.share; };
        return mixed(above) + (mixed(below) - mixed(above)) * rows.share;
      });
    }
}

// Input pixels [begin, end) of a row or column whose tap, `shift` before it, falls on one of `out` pixels.
Range landing(int in, int out, int stride, int shift) {
  const int end = shift + out > 0 ? divide_up(shift + out, stride) : 0;
  return {shift > 0 ? divide_up(shift, stride) : 0, std::min(in, end)};
}

// Adds what one input plane and one tap of a transposed convolution make to an output plane.
void scatter(const Call& call, int from, int to, int tap_y, int tap_x, float weight) {
  const Unit& u = call.unit;
  const int shift_y = u.padding.y - tap_y * u.dilation.y, shift_x = u.padding.x - tap_x * u.dilation.x;
  const Range rows = landing(u.in.height, u.out.height, u.stride.y, shift_y);
  const Range columns = landing(u.in.width, u.out.width, u.stride.x, shift_x);
  for (int y = rows.begin; y < rows.end; ++y) {
    const float* const in = call.source(from, y);
    float* const out = call.target(to, y * u.stride.y - shift_y);
    for (int x = columns.begin; x < columns.end; ++x) out[x * u.stride.x - shift_x] += weight * in[x];
  }
}

void transposed(const Call& call, Range channels) {
  const Unit& u = call.unit;
  const int inputs = u.in.channels / u.groups, outputs = u.out.channels / u.groups;
  for (int c = channels.begin; c < channels.end; ++c) {
    for (int y = 0; y < u.out.height; ++y) std::fill_n(call.target(c, y), u.out.width, u.bias[static_cast<std::size_t>(c)]);
    const float* weight = u.weight.data() + std::int64_t{c} * u.positions();
    for (int i = 0; i < inputs; ++i)
      for (int tap = 0; tap < u.taps(); ++tap, ++weight)
        if (*weight != 0.0f) scatter(call, c / outputs * inputs + i, c, tap / u.kernel.x, tap % u.kernel.x, *weight);
  }
}

// Over the channels of some rows.
void softmax(const Call& call, Range rows) {
  const int channels = call.unit.out.channels;
  for (int y = rows.begin; y < rows.end; ++y)
    for (int x = 0; x < call.unit.out.width; ++x) {
      float most = call.source(0, y)[x], sum = 0.0f;
      for (int c = 1; c < channels; ++c) most = std::max(most, call.source(c, y)[x]);
      for (int c = 0; c < channels; ++c) sum += call.target(c, y)[x] = std::exp(call.source(c, y)[x] - most);
      for (int c = 0; c < channels; ++c) call.target(c, y)[x] /= sum;
    }
}

Body body_of(Op op) {
  switch (op) {
    case Op::clip: return clip;
    case Op::elu: return elu;
    case Op::prelu: return prelu;
    case Op::softmax: return softmax;
    case Op::slice: return slice_channels;
    case Op::channel_shuffle: return shuffle;
    case Op::resize_nearest: return resize_nearest;
    case Op::pixel_shuffle: return pixel_shuffle;
    case Op::resize_bilinear: return resize_bilinear;
    case Op::conv_transpose2d: return transposed;
    default: throw std::logic_error("an operation without loops");
  }
}

// Calls body(half, float) for the pixels of some rows of some channels, which both views hold.
template <class Body>
void each_pixel(const View& halves, const View& floats, Range channels, Range rows, int width, const Body& body) {
  for (std::int64_t c = channels.begin; c < channels.end; ++c)
    for (std::int64_t y = rows.begin; y < rows.end; ++y)
      for (int x = 0; x < width; ++x)
        body(static_cast<Half*>(halves.data)[c * halves.plane + y * halves.row + x],
             static_cast<float*>(floats.data)[c * floats.plane + y * floats.row + x]);
}

// Planes of half precision as floats, in memory of their own.
struct InFloats {
  std::vector<float> in, out;
  View from, to;  // what is read and written
  Call call;

  static View dense(std::vector<float>& memory, const Shape& shape) {
    memory.resize(static_cast<std::size_t>(shape.size()));
    return {memory.data(), static_cast<std::ptrdiff_t>(shape.pixels()), shape.width};
  }

  explicit InFloats(const Call& halves)
      : from(halves.in),
        to(halves.out),
        call{dense(in, halves.unit.in), dense(out, halves.unit.out), halves.unit, halves.rows, halves.columns} {}

  void widen(Range channels) const {
    const Shape& shape = call.unit.in;
    each_pixel(from, call.in, channels, {0, shape.height}, shape.width, [](Half half, float& to) { to = float_of_half(half); });
  }

  // Rows of all channels are what softmax makes.
  void run(Body body, Range own) const {
    body(call, own);
    const Shape& shape = call.unit.out;
    const bool by_rows = call.unit.op == Op::softmax;
    each_pixel(to, call.out, by_rows ? Range{0, shape.channels} : own, by_rows ? own : Range{0, shape.height}, shape.width,
               [](Half& half, float from) { half = half_of_float(from); });
  }
};

}  // namespace

Step make_portable(const Binder& binder, const Operation& o) {
  const Unit& unit = binder.unit(o);
  const auto call = std::make_shared<Call>(Call{binder.view(o.reads[0]), binder.view(o.write), unit});
  if (unit.resizes()) {
    call->rows = Between::pixels(unit, unit.scale.y, unit.in.height, unit.out.height);
    call->columns = Between::pixels(unit, unit.scale.x, unit.in.width, unit.out.width);
  }
  const int count = unit.op == Op::softmax ? unit.out.height : unit.out.channels;
  Step step;
  step.kernel = unit.op == Op::pixel_shuffle ? "copy" : "portable";
  if (unit.weighted()) {
    step.density = density(unit);
    step.macs = step.density * static_cast<double>(unit.weights() * unit.in.pixels());
  }
  step.run = [call, body = body_of(unit.op), count](int part, int parts) { body(*call, slice(count, part, parts)); };
  if (!binder.tensor(o.write).half) return step;
  const auto floats = std::make_shared<InFloats>(*call);
  step.clear = [floats, channels = unit.in.channels](int part, int parts) { floats->widen(slice(channels, part, parts)); };
  step.run = [floats, body = body_of(unit.op), count](int part, int parts) { floats->run(body, slice(count, part, parts)); };
  return step;
}

}  // namespace jcw

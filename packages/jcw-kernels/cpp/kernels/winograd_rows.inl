// Winograd's form along rows: seven taps at a stride of two are four on the even columns and three on the odd ones, each at a
// stride of one, F(4, 4) and F(4, 3). Four adjacent outputs Y from the columns e and o that they read,
//     Y = A^T (G g * B^T e + H h * C^T o),   C^T = 4  0 -5  0  1  0    A^T = 1  1  1  1  1  8  0
//                                                  0 -4 -4  1  1  0          0  1 -1  2 -2  4  0
//                                                  0  4 -4 -1  1  0          0  1  1  4  4  2  0
//                                                  0 -2 -1  2  1  0          0  1 -1  8 -8  1  1
//                                                  0  2 -1 -2  1  0
//                                                  0  4  0 -5  0  1
// at the points 0, 1, -1, 2, -2, 1/2 and infinity, of which C has none of 1/2: 13 products instead of 28. B has the factor 2 x - 1
// more than C, so B^T e is C^T of 2 e[i + 1] - e[i], and at 1/2 the last row of C^T. Of each of the points, the sum over input channels
// and rows of the window is a dense convolution over a run of tiles; here are the transforms around it. Each lane of a
// vector holds another tile.
#pragma once

#include "winograd.inl"

namespace {

using jcw::RowPoints;
using jcw::RowProducts;

JCW_INLINE vec times(float factor, vec x) { return Isa::set(factor) * x; }

JCW_INLINE vec at_ends(vec first, vec middle, vec last) { return times(4, first) - times(5, middle) + last; }

// C^T of six columns: at 0, 1, -1, 2 and -2.
JCW_INLINE void store_inner(const vec (&x)[6], float* out, std::ptrdiff_t point) {
  const vec even = x[4] - times(4, x[2]), odd = x[3] - times(4, x[1]);
  const vec even2 = x[4] - x[2], odd2 = times(2, x[3] - x[1]);
  Isa::store(out, at_ends(x[0], x[2], x[4]));
  Isa::store(out + point, even + odd);
  Isa::store(out + 2 * point, even - odd);
  Isa::store(out + 3 * point, even2 + odd2);
  Isa::store(out + 4 * point, even2 - odd2);
}

// Every second one of the first `columns`, and those between them, then zeros: the last tile is whole, whatever lies there.
JCW_INLINE void separate_line(const float* in, int columns, float* even, float* odd, int count) {
  for (int i = 0; i < count; i += Isa::width) {
    vec a, b;
    Isa::load_pair(in + 2 * i, a, b);
    Isa::store(even + i, a);
    Isa::store(odd + i, b);
  }
  for (int i = columns / 2; i < count; ++i) odd[i] = 0.0f;
  for (int i = (columns + 1) / 2; i < count; ++i) even[i] = 0.0f;
}

// The first eight of the columns that a vector of tiles reads, four columns a tile.
JCW_INLINE void load_columns(const float* even, const float* odd, vec (&x)[8]) {
  Isa::load_pair(even, x[0], x[2]);
  Isa::load_pair(even + 2, x[4], x[6]);
  Isa::load_pair(odd, x[1], x[3]);
  Isa::load_pair(odd + 2, x[5], x[7]);
}

// The seven points of even columns.
JCW_INLINE void store_even(const vec (&e)[8], float* out, std::ptrdiff_t point) {
  vec x[6];
  JCW_UNROLL
  for (int i = 0; i < 6; ++i) x[i] = times(2, e[i + 1]) - e[i];
  store_inner(x, out, point);
  Isa::store(out + 5 * point, at_ends(e[1], e[3], e[5]));
  Isa::store(out + 6 * point, at_ends(x[1], x[3], x[5]));
}

// The six points of odd ones.
JCW_INLINE void store_odd(const vec (&o)[8], float* out, std::ptrdiff_t point) {
  store_inner({o[0], o[1], o[2], o[3], o[4], o[5]}, out, point);
  Isa::store(out + 5 * point, at_ends(o[1], o[3], o[5]));
}

// Whole vectors are written, in order: what lies past the last tile of a row belongs to the next one.
void winograd_row_points(const RowPoints& points, int rows) {
  float* lines[4];
  JCW_UNROLL
  for (int i = 0; i < 4; ++i) lines[i] = points.lines + i * points.line;
  for (int row = 0; row < rows; ++row) {
    separate_line(points.even + row * points.in_row, points.width + 3, lines[0], lines[1], 2 * points.tiles + 2);
    separate_line(points.odd + row * points.in_row, points.width + 2, lines[2], lines[3], 2 * points.tiles + 2);
    float* const out = points.points + std::ptrdiff_t{row} * points.tiles;
    for (int t = 0; t < points.tiles; t += Isa::width) {
      vec x[8];
      load_columns(lines[0] + 2 * t, lines[1] + 2 * t, x);
      store_even(x, out + t, points.point);
      load_columns(lines[2] + 2 * t, lines[3] + 2 * t, x);
      store_odd(x, out + t + 7 * points.point, points.point);
    }
  }
}

// The four outputs of a vector of tiles.
struct OutputsOfTiles {
  vec sum[4];

  JCW_INLINE OutputsOfTiles(const float* in, std::ptrdiff_t point, vec bias) {
    const auto product = [&](int p) { return Isa::load(in + p * point); };
    const vec plus = product(1) + product(2), minus = product(1) - product(2);
    const vec plus2 = product(3) + product(4), minus2 = product(3) - product(4), half = product(5);
    sum[0] = bias + product(0) + plus + plus2 + times(8, half);
    sum[1] = bias + minus + times(2, minus2) + times(4, half);
    sum[2] = bias + plus + times(4, plus2) + times(2, half);
    sum[3] = bias + minus + times(8, minus2) + half + product(6);
  }
};

JCW_INLINE void store_tiles(const OutputsOfTiles& tiles, const Target& to, int channel, std::ptrdiff_t pixel, int count) {
  vec even[2], odd[2];
  Isa::interleave(tiles.sum[0], tiles.sum[2], even[0], even[1]);
  Isa::interleave(tiles.sum[1], tiles.sum[3], odd[0], odd[1]);
  store_pixels(even[0], odd[0], to, channel, pixel, count);
  if (count > 2 * Isa::width) store_pixels(even[1], odd[1], to, channel, pixel + 2 * Isa::width, count - 2 * Isa::width);
}

// Only real pixels are written, because the next row may be another thread's. The last vector of a row overlaps the
// one before it.
void winograd_row_outputs(const RowProducts& from, int row_begin, int row_end, int channel_begin, int channel_end) {
  for (int channel = channel_begin; channel < channel_end; ++channel) {
    const float* in = from.products + (channel - channel_begin) * from.plane;
    const vec bias = Isa::set(from.target.bias[channel]);
    for (int row = row_begin; row < row_end; ++row, in += from.tiles)
      for (int t = 0; t < from.tiles; t += Isa::width) {
        const int at = t && t + Isa::width > from.tiles ? from.tiles - Isa::width : t;
        const int pixels = smaller(4 * (from.tiles - at), from.width - 4 * at);
        store_tiles({in + at, from.point, bias}, from.target, channel, row * from.out_row + 4 * at, pixels);
      }
  }
}

}  // namespace

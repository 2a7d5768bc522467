// Winograd's form along rows: seven taps at a stride of two are four on the even columns and three on the odd ones, each at a
// stride of one, F(2, 4) and F(2, 3). Two adjacent outputs Y from the columns e and o that they read,
//     Y = A^T (G g * B^T e + H h * C^T o)
//     B^T = 2 -1 -2  1  0    C^T = 1  0 -1  0    A^T = 1  1  1  1  0    at the points 0, 1, -1, 2 and infinity,
//           0 -2 -1  1  0          0  1  1  0          0  1 -1  2  1    where C has none of 2: 9 products instead of 14.
//           0  2 -3  1  0          0 -1  1  0
//           0 -1  0  1  0
//           0  2 -1 -2  1          0 -1  0  1
// Of each of the points, the sum over input channels and rows of the window is a dense convolution over a run of tiles; here are the
// transforms around it. Each lane of a vector holds another tile.
#pragma once

#include "winograd.inl"

namespace {

using jcw::RowPoints;
using jcw::RowProducts;

JCW_INLINE vec twice(vec x) { return x + x; }

// One vector of tiles: the five points of even columns and the four of odd ones.
JCW_INLINE void row_points_of(const float* even, const float* odd, float* out, std::ptrdiff_t point) {
  vec e[6], o[4];
  JCW_UNROLL
  for (int i = 0; i < 3; ++i) Isa::load_pair(even + 2 * i, e[2 * i], e[2 * i + 1]);
  JCW_UNROLL
  for (int i = 0; i < 2; ++i) Isa::load_pair(odd + 2 * i, o[2 * i], o[2 * i + 1]);
  const vec across = e[3] - e[1], inner = e[3] - e[2];
  Isa::store(out, twice(e[0] - e[2]) + across);
  Isa::store(out + point, inner - twice(e[1]));
  Isa::store(out + 2 * point, inner + twice(e[1] - e[2]));
  Isa::store(out + 3 * point, across);
  Isa::store(out + 4 * point, e[4] - e[2] - twice(across));
  Isa::store(out + 5 * point, o[0] - o[2]);
  Isa::store(out + 6 * point, o[1] + o[2]);
  Isa::store(out + 7 * point, o[2] - o[1]);
  Isa::store(out + 8 * point, o[3] - o[1]);
}

// Whole vectors are written, in order: what lies past the last tile of a row belongs to the next one.
void winograd_row_points(const RowPoints& points, int rows) {
  for (int row = 0; row < rows; ++row) {
    const float *even = points.even + row * points.in_row, *odd = points.odd + row * points.in_row;
    float* const out = points.points + std::ptrdiff_t{row} * points.tiles;
    for (int t = 0; t < points.tiles; t += Isa::width) row_points_of(even + 2 * t, odd + 2 * t, out + t, points.point);
  }
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
        const auto product = [&](int point) { return Isa::load(in + at + point * from.point); };
        const vec plus = product(1), minus = product(2), two = product(3);
        const vec even = (product(0) + bias) + (plus + minus) + two;
        const vec odd = (product(4) + bias) + (plus - minus) + twice(two);
        const int pixels = smaller(2 * (from.tiles - at), from.width - 2 * at);
        store_pixels(even, odd, from.target, channel, row * from.out_row + 2 * at, pixels);
      }
  }
}

}  // namespace

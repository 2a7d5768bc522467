// Winograd's F(2x2, 3x3) (Lavin and Gray 2016): tiles of 2 x 2 outputs Y from the 4 x 4 inputs d they read,
//     Y = A^T ((G g G^T) * (B^T d B)) A   with   B^T = 1  0 -1  0    A^T = 1  1  1  0
//                                                      0  1  1  0          0  1 -1 -1
//                                                      0 -1  1  0
//                                                      0  1  0 -1
// where * multiplies pointwise. Of each of the 16 points, the sum over input channels is a dense 1 x 1 convolution
// over a run of tiles; here are the two transforms around it. Each lane of a vector holds another tile.
#pragma once

#include "tile.inl"

namespace {

using jcw::Winograd;

// Calls body(row of tiles, first tile in that row, tiles, offset from begin) for each piece of a row in a range.
template <class Body>
JCW_INLINE void each_row(int begin, int end, int tiles_per_row, const Body& body) {
  for (int t = begin; t < end;) {
    const int row = t / tiles_per_row, column = t % tiles_per_row;
    const int count = smaller(end - t, tiles_per_row - column);
    body(row, column, count, t - begin);
    t += count;
  }
}

// One vector of tiles from the first of their pixels to the 16 points.
JCW_INLINE void points_of(const float* const (&rows)[4], float* out, std::ptrdiff_t point) {
  vec d[4][4];
  JCW_UNROLL
  for (int y = 0; y < 4; ++y) {
    vec x[4];
    Isa::load_pair(rows[y], x[0], x[1]);
    Isa::load_pair(rows[y] + 2, x[2], x[3]);
    d[y][0] = x[0] - x[2];
    d[y][1] = x[1] + x[2];
    d[y][2] = x[2] - x[1];
    d[y][3] = x[1] - x[3];
  }
  JCW_UNROLL
  for (int x = 0; x < 4; ++x) {
    Isa::store(out + x * point, d[0][x] - d[2][x]);
    Isa::store(out + (4 + x) * point, d[1][x] + d[2][x]);
    Isa::store(out + (8 + x) * point, d[2][x] - d[1][x]);
    Isa::store(out + (12 + x) * point, d[1][x] - d[3][x]);
  }
}

// Whole vectors are written, in order: what lies past the last tile of a row belongs to the next row or channel.
void winograd_points(const Winograd& conv, float* points, int tile_begin, int tile_end, int channel_begin,
                     int channel_end) {
  // The fourth row of the last tiles may lie below all padding. It only counts in outputs that do not exist.
  const int last = conv.height + 1;
  for (int channel = channel_begin; channel < channel_end; ++channel) {
    const float* in = conv.in + channel * conv.in_plane - conv.padding_y * conv.in_row - conv.padding_x;
    float* out = points + (channel - channel_begin) * conv.plane;
    each_row(tile_begin, tile_end, conv.tiles_per_row, [&](int row, int column, int count, int offset) {
      const float* rows[4];
      JCW_UNROLL
      for (int y = 0; y < 4; ++y) rows[y] = in + smaller(2 * row + y, last) * conv.in_row + 2 * column;
      for (int t = 0; t < count; t += Isa::width) {
        const float* const at[4] = {rows[0] + 2 * t, rows[1] + 2 * t, rows[2] + 2 * t, rows[3] + 2 * t};
        // The tiles below read two more rows.
        if constexpr (Isa::prefetches_all) {
          prefetch(at[2] + 2 * conv.in_row);
          prefetch(at[3] + 2 * conv.in_row);
        }
        points_of(at, out + offset + t, conv.point);
      }
    });
  }
}

// Writes the first `count` of 2 * width floats, at most all.
template <class I = Isa>
JCW_INLINE void store_first(float* out, int count, vec low, vec high) {
  if (count >= 2 * Isa::width) {
    Isa::store(out, low);
    Isa::store(out + Isa::width, high);
  } else if constexpr (I::has_masks) {
    I::store_part(out, count, low, high);
  } else {
    float all[2 * Isa::width];
    Isa::store(all, low);
    Isa::store(all + Isa::width, high);
    for (int i = 0; i < count; ++i) out[i] = all[i];
  }
}

JCW_INLINE vec completed(vec value, const Target& to, int channel) {
  switch (to.activation) {
    case Activation::none: return value;
    case Activation::relu: return Bounds<Clamp::low>()(value);
    case Activation::relu6: return Bounds<Clamp::both>()(value);
    default: return activated(value, to.activation, slope_of(to.slopes, channel));
  }
}

// Two rows of output of one vector of tiles, from the 16 points' products.
struct OutputTiles {
  vec sum[2][2];

  JCW_INLINE OutputTiles(const float* in, std::ptrdiff_t point, vec bias) {
    vec top[4], bottom[4];
    JCW_UNROLL
    for (int x = 0; x < 4; ++x) {
      const vec m1 = Isa::load(in + (4 + x) * point), m2 = Isa::load(in + (8 + x) * point);
      top[x] = Isa::load(in + x * point) + (m1 + m2);
      bottom[x] = (m1 - m2) - Isa::load(in + (12 + x) * point);
    }
    sum[0][0] = top[0] + (top[1] + top[2]) + bias;
    sum[0][1] = (top[1] - top[2]) - top[3] + bias;
    sum[1][0] = bottom[0] + (bottom[1] + bottom[2]) + bias;
    sum[1][1] = (bottom[1] - bottom[2]) - bottom[3] + bias;
  }
};

// The first `count` pixels from `pixel` on, of which every second is `odd`.
JCW_INLINE void store_pixels(vec even, vec odd, const Target& to, int channel, std::ptrdiff_t pixel, int count) {
  vec low, high;
  Isa::interleave(even, odd, low, high);
  if (to.residual) {
    const float* residual = elements(to.residual) + channel * to.residual_plane + pixel;
    low = low + Isa::load(residual);
    high = high + Isa::load(residual + Isa::width);
  }
  store_first(elements(to.out) + channel * to.out_plane + pixel, count, completed(low, to, channel),
              completed(high, to, channel));
}

// Only real pixels are written, because the next row may be another thread's. The last vector of a row overlaps the
// one before it.
void winograd_outputs(const Winograd& conv, const float* products, int tile_begin, int tile_end, int channel_begin,
                      int channel_end) {
  for (int channel = channel_begin; channel < channel_end; ++channel) {
    const float* in = products + (channel - channel_begin) * conv.plane;
    const vec bias = Isa::set(conv.target.bias[channel]);
    each_row(tile_begin, tile_end, conv.tiles_per_row, [&](int row, int column, int count, int offset) {
      const int rows = smaller(2, conv.height - 2 * row);
      for (int t = 0; t < count; t += Isa::width) {
        const int at = t && t + Isa::width > count ? count - Isa::width : t;
        const int x = 2 * (column + at), pixels = smaller(2 * (count - at), conv.width - x);
        const OutputTiles tiles(in + offset + at, conv.point, bias);
        for (int y = 0; y < rows; ++y)
          store_pixels(tiles.sum[y][0], tiles.sum[y][1], conv.target, channel, (2 * row + y) * conv.out_row + x, pixels);
      }
    });
  }
}

}  // namespace

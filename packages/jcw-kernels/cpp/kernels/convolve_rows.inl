// Dense convolution row by row, the sum of convolve.inl turned around: for one pixel p and a vector of output channels o,
//     out[o..][p] = activation(bias[o..] + residual[o..][p] + sum over (i, ky, kx) of w[i][ky][kx][o..] * in[i][p + offset])
// so that a pixel is one factor for all lanes and no pad column is computed. At the end the sums are transposed to planes.
// For instruction sets with rows_vectors.
#pragma once

#include "tile.inl"

namespace {

using jcw::ConvolutionRows;

// What the tiles of one group of output channels share.
template <class I>
struct RowTiles {
  static constexpr int V = I::rows_vectors, width = I::width, channels = V * width;
  // Transpositions read past the last pixel.
  struct Sums {
    alignas(sizeof(vec)) float pixel[I::rows_pixels + width][channels];
  };

  const ConvolutionRows& conv;
  int row_begin, row_end, group;

  // Tiles of N columns, and of several rows where those are short.
  template <int N>
  __attribute__((noinline)) void run(int first, int tiles) const {
    constexpr int R = I::rows_pixels / N;
    const int high = (row_end - row_begin) / R, visits = (high + (row_end - row_begin) % R) * tiles;
    // Each tile fetches its share of the next group's weights, which come from further away than these.
    const int step = (channels + visits - 1) / visits;
    const float* next = conv.weights + std::ptrdiff_t{group + 1} * conv.entries * channels;
    for (int y = row_begin; y < row_end;) {
      const int rows = row_end - y < R ? 1 : R;
      for (int i = 0; i < tiles; ++i, next += conv.entries * step) {
        const std::ptrdiff_t pixel = y * conv.row + first + i * N;
        if (rows == R)
          one<R, N>(pixel, next, step);
        else
          one<1, N>(pixel, next, step);
      }
      y += rows;
    }
  }

  template <int R, int N>
  JCW_INLINE void one(std::ptrdiff_t pixel, const float* next, int step) const {
    Sums sums;
    accumulate<R, N>(pixel, sums, next, step);
    for (int r = 0; r < R; ++r, pixel += conv.row) {
      const float* row = sums.pixel[r * N];
      switch (clamp_of(conv.target.activation)) {
        case Clamp::none: store<Clamp::none>(row, N, pixel); break;
        case Clamp::low: store<Clamp::low>(row, N, pixel); break;
        case Clamp::both: store<Clamp::both>(row, N, pixel); break;
      }
    }
  }

  template <int R, int N>
  JCW_INLINE void accumulate(std::ptrdiff_t pixel, Sums& sums, const float* next, int step) const {
    const float* in = conv.in + pixel;
    const float* weights = conv.weights + std::ptrdiff_t{group} * conv.entries * channels;
    vec sum[R * N][V];
    JCW_UNROLL
    for (int v = 0; v < V; ++v) {
      const vec bias = I::load(conv.target.bias + group * channels + v * width);
      JCW_UNROLL
      for (int n = 0; n < R * N; ++n) sum[n][v] = bias;
    }
    const std::ptrdiff_t row = conv.row;
    for (int e = 0; e < conv.entries; ++e, weights += channels, next += step) {
      prefetch(in + conv.offsets[e + jcw::kAhead]);
      prefetch(next);
      const float* at = in + conv.offsets[e];
      vec w[V];
      JCW_UNROLL
      for (int v = 0; v < V; ++v) w[v] = I::load(weights + v * width);
      JCW_UNROLL
      for (int n = 0; n < R * N; ++n) {
        const vec x = I::load_one(at + n / N * row + n % N);
        JCW_UNROLL
        for (int v = 0; v < V; ++v) sum[n][v] = I::fma(x, w[v], sum[n][v]);
      }
    }
    JCW_UNROLL
    for (int n = 0; n < R * N; ++n) {
      JCW_UNROLL
      for (int v = 0; v < V; ++v) I::store(sums.pixel[n] + v * width, sum[n][v]);
    }
  }

  // Only real pixels are written, because the next row may be another thread's.
  template <Clamp clamp>
  __attribute__((noinline)) void store(const float* sums, int pixels, std::ptrdiff_t pixel) const {
    const Target& to = conv.target;
    for (int v = 0; v < V; ++v) {
      const int channel = group * channels + v * width, planes = smaller(width, to.channels - channel);
      vec rows[width];
      if (pixels <= width / 2)
        I::template transpose<width / 2>(sums + v * width, channels, rows);
      else
        I::template transpose<width>(sums + v * width, channels, rows);
      float* out = elements(to.out) + channel * to.out_plane + pixel;
      const float* residual = to.residual ? elements(to.residual) + channel * to.residual_plane + pixel : nullptr;
      JCW_UNROLL
      for (int r = 0; r < width; ++r) {
        if (r >= planes) break;
        if (residual) rows[r] = rows[r] + I::load(residual + r * to.residual_plane);
        rows[r] = Bounds<clamp>()(rows[r]);
        if constexpr (clamp == Clamp::none) rows[r] = activated(rows[r], to.activation, slope_of(to.slopes, channel + r));
        I::store_first(out + r * to.out_plane, pixels, rows[r]);
      }
    }
  }
};

template <class I = Isa>
void convolve_rows(const ConvolutionRows& conv, int row_begin, int row_end, int group_begin, int group_end) {
  for (int group = group_begin; group < group_end; ++group)
    split_tiles<I::rows_pixels>(0, conv.width, RowTiles<I>{conv, row_begin, row_end, group});
}

}  // namespace

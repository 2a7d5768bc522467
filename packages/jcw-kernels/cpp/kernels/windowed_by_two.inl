// Depthwise convolution and max pooling with a stride of two, from rows as they lie: two vectors are
// loaded and taken apart into the pixels of even and of odd columns.
#pragma once

#include "tile.inl"

namespace {

using jcw::Windowed;

struct ByTwoTiles {
  const Windowed& window;
  int channel, row;

  template <int N>
  JCW_INLINE void run(int first, int tiles) const {
    for (int t = 0; t < tiles; ++t) {
      if (window.weights)
        one<N, true>((first + t * N) * Isa::width);
      else
        one<N, false>((first + t * N) * Isa::width);
    }
  }

  template <bool weighted, int N>
  static JCW_INLINE void take(Tile<1, N>& tile, int n, vec x, vec weight) {
    tile.sum[0][n] = weighted ? Isa::fma(x, weight, tile.sum[0][n]) : Isa::max(tile.sum[0][n], x);
  }

  template <int N, bool weighted>
  JCW_INLINE void one(int column) const {
    const float* in = window.in + channel * window.in_plane +
                      (2 * std::ptrdiff_t{row} - window.padding_y) * window.in_row + 2 * column - window.padding_x;
    const float* weights = weighted ? window.weights + std::ptrdiff_t{channel} * window.taps : nullptr;
    Tile<1, N> tile;
    // Inputs of pooling are not negative here, so zero padding never wins over a real pixel.
    const vec start = Isa::set(weighted ? window.target.bias[channel] : 0.0f);
    JCW_UNROLL
    for (int n = 0; n < N; ++n) tile.sum[0][n] = start;
    for (int ky = 0; ky < window.kernel_y; ++ky, in += window.in_row) {
      int kx = 0;
      for (; kx + 1 < window.kernel_x; kx += 2) {
        const vec left = Isa::set(weighted ? *weights++ : 0.0f), right = Isa::set(weighted ? *weights++ : 0.0f);
        JCW_UNROLL
        for (int n = 0; n < N; ++n) {
          vec even, odd;
          Isa::load_pair(in + kx + 2 * n * Isa::width, even, odd);
          take<weighted>(tile, n, even, left);
          take<weighted>(tile, n, odd, right);
        }
      }
      if (kx == window.kernel_x) continue;
      const vec last = Isa::set(weighted ? *weights++ : 0.0f);
      JCW_UNROLL
      for (int n = 0; n < N; ++n) {
        vec even, odd;
        Isa::load_pair(in + kx + 2 * n * Isa::width, even, odd);
        take<weighted>(tile, n, even, last);
      }
    }
    finish<1, N>(tile, window.target, channel, row * window.out_row + column);
  }
};

// Rows go in order: what a row writes past its end, the next row writes again.
void windowed_by_two(const Windowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  const int vectors = (window.width + Isa::width - 1) / Isa::width;
  for (int channel = channel_begin; channel < channel_end; ++channel)
    for (int row = row_begin; row < row_end; ++row) split_tiles<4>(0, vectors, ByTwoTiles{window, channel, row});
}

}  // namespace

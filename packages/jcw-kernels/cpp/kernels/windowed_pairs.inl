// Depthwise convolution with a window of 3 x 3 and a stride of two where a vector holds two rows of the output:
//     out[c][y][x] = activation(bias[c] + residual[c][y][x]
//                               + sum over ky, kx of w[c][ky][kx] * in[c][2 y + ky - padding_y][2 x + kx - padding_x])
// for y and y + 1 at once, with half the multiplications of strips. For instruction sets with pairs_rows.
#pragma once

#include "tile.inl"

namespace {

using jcw::Windowed;

// N pairs of rows of the output. `in` is under the first tap of the first pixel.
template <class I, int N>
struct RowPairs {
  const element* in;
  std::ptrdiff_t in_row;
  vec weight[9];
  Tile<1, N> tile;

  // The row `ky` of the window, under the two rows of the pair n.
  template <int n, int ky>
  JCW_INLINE void meet() {
    vec even, odd;
    const element* upper = in + (4 * n + ky) * in_row;
    I::separate(I::load(upper), I::load(upper + 2 * in_row), even, odd);
    const vec x[] = {even, odd, I::template slide<1>(even, even)};
    JCW_UNROLL
    for (int kx = 0; kx < 3; ++kx) tile.sum[0][n] = I::fma(x[kx], weight[3 * ky + kx], tile.sum[0][n]);
  }

  template <int n = 0>
  JCW_INLINE void run() {
    meet<n, 0>();
    meet<n, 1>();
    meet<n, 2>();
    if constexpr (n + 1 < N) run<n + 1>();
  }
};

template <class I>
struct RowPairTiles {
  const Windowed& window;
  int row_begin, channel_begin, channel_end;

  template <int N>
  __attribute__((noinline)) void run(int first, int tiles) const {
    const Windowed known = window;  // what is stored cannot alias it, so it stays in registers
    for (int t = 0; t < tiles; ++t)
      for (int channel = channel_begin; channel < channel_end; ++channel)
        one<N>(known, channel, row_begin + 2 * (first + t * N));
  }

  template <int N>
  static JCW_INLINE void one(const Windowed& window, int channel, std::ptrdiff_t row) {
    const element* in = elements(window.in) + channel * window.in_plane + (2 * row - window.padding_y) * window.in_row - window.padding_x;
    RowPairs<I, N> pairs{in, window.in_row, {}, {}};
    JCW_UNROLL
    for (int k = 0; k < 9; ++k) pairs.weight[k] = I::set(window.weights[std::ptrdiff_t{channel} * 9 + k]);
    const vec from = start_of(window.target, channel);
    JCW_UNROLL
    for (int n = 0; n < N; ++n) pairs.tile.sum[0][n] = from;
    pairs.run();
    finish_plane<N>(pairs.tile, window.target, channel, row * window.out_row);
  }
};

// False where a vector does not hold two rows and, after each, a column of padding.
template <class I = Isa>
bool windowed_pairs(const Windowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  if constexpr (I::pairs_rows) {
    if (2 * window.out_row != I::width || window.width == window.out_row) return false;
    split_tiles<4>(0, (row_end - row_begin + 1) / 2, RowPairTiles<I>{window, row_begin, channel_begin, channel_end});
    return true;
  }
  return false;
}

}  // namespace

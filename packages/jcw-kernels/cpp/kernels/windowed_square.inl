// Depthwise convolution with a K x K window and a stride of one, in flat runs or in strips:
//     out[c][y][x] = activation(bias[c] + residual[c][y][x]
//                               + sum over ky, kx of w[c][ky][kx] * in[c][y + ky - padding_y][x + kx - padding_x])
// Most unaligned loads cross cache lines, so each kernel row is loaded once and slid along by its taps in registers.
#pragma once

#include "tile.inl"
#include "windowed_strips.inl"

namespace {

using jcw::Windowed;

template <int K>
struct SquareTiles {
  const Windowed& window;
  int channel_begin, channel_end;

  template <int N>
  __attribute__((noinline)) void run(int first, int tiles) const {
    const Windowed known = window;  // what is stored cannot alias it, so it stays in registers
    for (int channel = channel_begin; channel < channel_end; ++channel)
      for (int t = 0; t < tiles; ++t) one<N>(known, channel, std::ptrdiff_t{first + t * N} * Isa::width);
  }

  // Where sliding takes more than one instruction, loading again is as good.
  template <int kx>
  static JCW_INLINE vec at(const element* in, vec a, vec b) {
    if constexpr (Isa::slides_at_once && kx <= Isa::width)
      return Isa::slide<kx>(a, b);
    else
      return Isa::load(in + kx);
  }

  template <int N, int kx = 0>
  static JCW_INLINE void row(Tile<1, N>& tile, const element* in, const vec (&x)[N + 1], const float* weights) {
    if constexpr (kx < K) {
      const vec weight = Isa::set(weights[kx]);
      JCW_UNROLL
      for (int n = 0; n < N; ++n)
        tile.sum[0][n] = Isa::fma(at<kx>(in + n * Isa::width, x[n], x[n + 1]), weight, tile.sum[0][n]);
      row<N, kx + 1>(tile, in, x, weights);
    }
  }

  template <int N>
  static JCW_INLINE void one(const Windowed& window, int channel, std::ptrdiff_t pixel) {
    const element* in = elements(window.in) + channel * window.in_plane + pixel - window.padding_y * window.in_row - window.padding_x;
    const float* weights = window.weights + std::ptrdiff_t{channel} * K * K;
    Tile<1, N> tile;
    const vec from = start_of(window.target, channel);
    JCW_UNROLL
    for (int n = 0; n < N; ++n) tile.sum[0][n] = from;
    for (int ky = 0; ky < K; ++ky, in += window.in_row, weights += K) {
      vec x[N + 1];
      JCW_UNROLL
      for (int n = 0; n <= N; ++n) x[n] = Isa::load(in + n * Isa::width);
      row<N>(tile, in, x, weights);
    }
    finish_plane<N>(tile, window.target, channel, pixel);
  }
};

// A strip wastes the lanes past its row's end. It saves loads while the weights stay in registers.
template <int K>
void windowed_square(const Windowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  if constexpr (K == 3 && Isa::strip_vectors[0] > 0)
    if (8 * StripCut<1>(window.width).lanes() <= 9 * window.out_row)
      return Strips<K, 1, true>{window, row_begin, row_end, channel_begin, channel_end}.run();
  const auto edge = [&](int row) { return static_cast<int>((row * window.out_row + Isa::width - 1) / Isa::width); };
  split_tiles<Isa::plain_vectors>(edge(row_begin), edge(row_end), SquareTiles<K>{window, channel_begin, channel_end});
}

}  // namespace

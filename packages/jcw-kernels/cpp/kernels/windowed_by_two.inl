// Depthwise convolution and max pooling with a square window and a stride of two, from rows as they lie:
// each row is loaded once, taken apart into even and odd columns, and slid along by its taps.
#pragma once

#include "tile.inl"

namespace {

using jcw::Windowed;

template <int K, bool weighted>
struct ByTwoTiles {
  const Windowed& window;
  int row_begin, row_end, channel_begin, channel_end;

  // Rows go in order: what a row writes past its end, the next row writes again. The last tile of a row
  // overlaps the one before it.
  template <int N>
  __attribute__((noinline)) void run(int vectors) const {
    for (int channel = channel_begin; channel < channel_end; ++channel)
      for (int row = row_begin; row < row_end; ++row)
        for (int at = 0; at < vectors; at += N) one<N>(channel, row, smaller(at, vectors - N) * Isa::width);
  }

  template <int N, int kx = 0>
  static JCW_INLINE void taps(Tile<1, N>& tile, const vec (&even)[N + 1], const vec (&odd)[N + 1], const float* weights) {
    if constexpr (kx < K) {
      const vec weight = Isa::set(weighted ? weights[kx] : 1.0f);
      const vec(&x)[N + 1] = kx % 2 ? odd : even;
      JCW_UNROLL
      for (int n = 0; n < N; ++n) {
        const vec pixels = Isa::slide<kx / 2>(x[n], x[n + 1]);
        tile.sum[0][n] = weighted ? Isa::fma(pixels, weight, tile.sum[0][n]) : Isa::max(tile.sum[0][n], pixels);
      }
      taps<N, kx + 1>(tile, even, odd, weights);
    }
  }

  template <int N>
  JCW_INLINE void one(int channel, int row, int column) const {
    const float* in = window.in + channel * window.in_plane +
                      (2 * std::ptrdiff_t{row} - window.padding_y) * window.in_row + 2 * column - window.padding_x;
    const float* weights = weighted ? window.weights + std::ptrdiff_t{channel} * K * K : nullptr;
    Tile<1, N> tile;
    // Inputs of pooling are not negative here, so zero padding never wins over a real pixel.
    const vec start = Isa::set(weighted ? window.target.bias[channel] : 0.0f);
    JCW_UNROLL
    for (int n = 0; n < N; ++n) tile.sum[0][n] = start;
    for (int ky = 0; ky < K; ++ky, in += window.in_row) {
      vec even[N + 1], odd[N + 1];
      JCW_UNROLL
      for (int n = 0; n <= N; ++n) Isa::load_pair(in + 2 * n * Isa::width, even[n], odd[n]);
      taps<N>(tile, even, odd, weights);
      if constexpr (weighted) weights += K;
    }
    finish<1, N>(tile, window.target, channel, row * window.out_row + column);
  }
};

template <int K, bool weighted>
JCW_INLINE void by_two_rows(const Windowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  constexpr int most = 4;
  const ByTwoTiles<K, weighted> body{window, row_begin, row_end, channel_begin, channel_end};
  const int vectors = (window.width + Isa::width - 1) / Isa::width, tiles = (vectors + most - 1) / most;
  switch ((vectors + tiles - 1) / tiles) {
    case 1: return body.template run<1>(vectors);
    case 2: return body.template run<2>(vectors);
    case 3: return body.template run<3>(vectors);
    default: return body.template run<most>(vectors);
  }
}

template <int K>
void windowed_by_two(const Windowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  if (window.weights)
    by_two_rows<K, true>(window, row_begin, row_end, channel_begin, channel_end);
  else
    by_two_rows<K, false>(window, row_begin, row_end, channel_begin, channel_end);
}

}  // namespace

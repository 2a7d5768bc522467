// Depthwise convolution and max pooling with a square window and a stride of two, from rows as they lie:
// each row is loaded once, taken apart into even and odd columns, slid along by its taps, and added to all
// rows of the output that it meets.
#pragma once

#include "tile.inl"

namespace {

using jcw::Windowed;

// A strip of N vectors of one channel, from its first row to its last. `spare`: the columns that the last
// vector would need of its neighbour all belong to outputs past the width.
template <int K, bool weighted, bool spare, int N>
struct ByTwoStrip {
  static constexpr int kLive = K / 2 + 1;  // rows of the output that one row of the input meets at most

  const Windowed& window;
  int channel, column;
  vec weight[weighted ? K * K : 1];
  vec start;
  Tile<kLive, N> tile;

  template <int kx>
  static JCW_INLINE void tap(vec (&sum)[N], const vec (&x)[N + 1], vec weight) {
    JCW_UNROLL
    for (int n = 0; n < N; ++n) {
      const vec pixels = Isa::slide<kx / 2>(x[n], x[n + 1]);
      sum[n] = weighted ? Isa::fma(pixels, weight, sum[n]) : Isa::max(sum[n], pixels);
    }
  }

  template <int ky, int kx = 0>
  JCW_INLINE void taps(vec (&sum)[N], const vec (&even)[N + 1], const vec (&odd)[N + 1]) {
    if constexpr (0 <= ky && ky < K && kx < K) {
      tap<kx>(sum, kx % 2 ? odd : even, weight[weighted ? ky * K + kx : 0]);
      taps<ky, kx + 1>(sum, even, odd);
    }
  }

  template <int y, int live = 0>
  JCW_INLINE void meet(const vec (&even)[N + 1], const vec (&odd)[N + 1]) {
    if constexpr (live < kLive) {
      taps<y - 2 * live>(tile.sum[live], even, odd);
      meet<y, live + 1>(even, odd);
    }
  }

  // Row y of the window of the first output row that is under way.
  template <int y>
  JCW_INLINE void feed(const float* in) {
    vec even[N + 1], odd[N + 1];
    JCW_UNROLL
    for (int n = 0; n < N + !spare; ++n) Isa::load_pair(in + 2 * n * Isa::width, even[n], odd[n]);
    if constexpr (spare) even[N] = even[N - 1], odd[N] = odd[N - 1];
    meet<y>(even, odd);
  }

  template <int y = 0>
  JCW_INLINE const float* begin(const float* in) {
    if constexpr (y == K - 2) {
      return in;
    } else {
      feed<y>(in);
      return begin<y + 1>(in + window.in_row);
    }
  }

  JCW_INLINE void run(int row_begin, int row_end) {
    const float* weights = window.weights + std::ptrdiff_t{channel} * K * K;
    JCW_UNROLL
    for (int k = 0; k < (weighted ? K * K : 0); ++k) weight[k] = Isa::set(weights[k]);
    // Inputs of pooling are not negative here, so zero padding never wins over a real pixel.
    start = Isa::set(weighted ? window.target.bias[channel] : 0.0f);
    JCW_UNROLL
    for (int live = 0; live < kLive; ++live) {
      JCW_UNROLL
      for (int n = 0; n < N; ++n) tile.sum[live][n] = start;
    }
    const float* in = begin(window.in + channel * window.in_plane +
                            (2 * std::ptrdiff_t{row_begin} - window.padding_y) * window.in_row + 2 * column -
                            window.padding_x);
    for (int row = row_begin; row < row_end; ++row, in += 2 * window.in_row) {
      feed<K - 2>(in);
      feed<K - 1>(in + window.in_row);
      Tile<1, N> done;
      JCW_UNROLL
      for (int n = 0; n < N; ++n) {
        done.sum[0][n] = tile.sum[0][n];
        JCW_UNROLL
        for (int live = 1; live < kLive; ++live) tile.sum[live - 1][n] = tile.sum[live][n];
        tile.sum[kLive - 1][n] = start;
      }
      finish<1, N>(done, window.target, channel, row * window.out_row + column);
    }
  }
};

template <int K, bool weighted>
struct ByTwo {
  const Windowed& window;
  int row_begin, row_end, channel_begin, channel_end;

  // Rows go in order and strips from right to left: what is written past a row's end is written again. The
  // first strip to be computed overlaps the next one.
  template <int N, bool spare>
  __attribute__((noinline)) void run(int vectors) const {
    const Windowed known = window;  // what is stored cannot alias it, so it stays in registers
    for (int channel = channel_begin; channel < channel_end; ++channel)
      for (int at = (vectors - 1) / N * N; at >= 0; at -= N) {
        ByTwoStrip<K, weighted, spare, N> strip{known, channel, smaller(at, vectors - N) * Isa::width, {}, {}, {}};
        strip.run(row_begin, row_end);
      }
  }

  template <int N>
  void choose(int vectors) const {
    if (vectors == N && N * Isa::width >= window.width + K / 2)
      run<N, true>(vectors);
    else
      run<N, false>(vectors);
  }
};

template <int K, bool weighted>
JCW_INLINE void by_two_rows(const Windowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  constexpr int most = Isa::strip_vectors;
  const ByTwo<K, weighted> body{window, row_begin, row_end, channel_begin, channel_end};
  const int vectors = (window.width + Isa::width - 1) / Isa::width, tiles = (vectors + most - 1) / most;
  switch ((vectors + tiles - 1) / tiles) {
    case 1: return body.template choose<1>(vectors);
    case 2: return body.template choose<2>(vectors);
    case 3: return body.template choose<smaller(3, most)>(vectors);
    default: return body.template choose<most>(vectors);
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

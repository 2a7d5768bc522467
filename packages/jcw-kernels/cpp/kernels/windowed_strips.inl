// Depthwise convolution and max pooling with a K x K window and a stride S of one or two, from rows as they lie:
//     out[c][y][x] = activation(bias[c] + residual[c][y][x]
//                               + sum over ky, kx of w[c][ky][kx] * in[c][S y + ky - padding_y][S x + kx - padding_x])
// or the maximum over ky, kx instead of the sum. A strip of one plane is walked from top to bottom: each row is loaded once, slid along by its taps, and
// added to all rows of the output that it meets.
#pragma once

#include "tile.inl"
#include "windowed_pairs.inl"

namespace {

using jcw::Windowed;

// One row of the input under N vectors of outputs, taken apart into even and odd columns at a stride of two.
// Alone: the columns that the last vector would need of its neighbour belong to outputs past the width.
template <int S, int N, bool alone>
struct StripRow {
  const element* in;
  vec column[S][N + 1];

  JCW_INLINE explicit StripRow(const element* row) : in(row) {
    JCW_UNROLL
    for (int n = 0; n < N + !alone; ++n) {
      if constexpr (S == 2)
        Isa::load_pair(in + 2 * n * Isa::width, column[0][n], column[1][n]);
      else
        column[0][n] = Isa::load(in + n * Isa::width);
    }
    if constexpr (alone) {
      JCW_UNROLL
      for (int s = 0; s < S; ++s) column[s][N] = column[s][N - 1];
    }
  }

  // Where sliding takes more than one instruction, loading again is as good.
  template <int kx>
  JCW_INLINE vec under(int n) const {
    if constexpr (S == 2 || Isa::slides_at_once)
      return Isa::template slide<kx / S>(column[kx % S][n], column[kx % S][n + 1]);
    else
      return Isa::load(in + n * Isa::width + kx);
  }
};

template <int K, int S, bool weighted, bool alone, int N>
struct Strip {
  static constexpr int kLive = (K + S - 1) / S;  // rows of the output that one row of the input meets at most
  using Row = StripRow<S, N, alone>;

  const Windowed& window;
  int channel, column;
  vec weight[weighted ? K * K : 1];
  Tile<kLive, N> tile;

  // `y`: which row of the window it is to the first row of the output that is under way.
  template <int y, int kx, int live = 0>
  JCW_INLINE void meet(const vec (&pixels)[N]) {
    constexpr int ky = y - S * live;
    if constexpr (live < kLive && ky >= 0) {
      JCW_UNROLL
      for (int n = 0; n < N; ++n) {
        vec& sum = tile.sum[live][n];
        sum = weighted ? Isa::fma(pixels[n], weight[weighted ? ky * K + kx : 0], sum) : Isa::largest(sum, pixels[n]);
      }
    }
    if constexpr (live + 1 < kLive) meet<y, kx, live + 1>(pixels);
  }

  template <int y, int kx = 0>
  JCW_INLINE void taps(const Row& row) {
    if constexpr (kx < K) {
      vec pixels[N];
      JCW_UNROLL
      for (int n = 0; n < N; ++n) pixels[n] = row.template under<kx>(n);
      meet<y, kx>(pixels);
      taps<y, kx + 1>(row);
    }
  }

  // The rows [y, end) of the window.
  template <int y, int end>
  JCW_INLINE const element* feed(const element* in) {
    if constexpr (y == end) {
      return in;
    } else {
      taps<y>(Row(in));
      return feed<y + 1, end>(in + window.in_row);
    }
  }

  JCW_INLINE void start(vec (&sum)[N], vec from) {
    JCW_UNROLL
    for (int n = 0; n < N; ++n) sum[n] = from;
  }

  JCW_INLINE void run(int row_begin, int row_end) {
    if constexpr (weighted) {
      const float* weights = window.weights + std::ptrdiff_t{channel} * K * K;
      JCW_UNROLL
      for (int k = 0; k < K * K; ++k) weight[k] = Isa::set(weights[k]);
    }
    // Inputs of pooling are not negative here, so zero padding never wins over a real pixel.
    const vec from = weighted ? start_of(window.target, channel) : Isa::set(0.0f);
    JCW_UNROLL
    for (int live = 0; live < kLive; ++live) start(tile.sum[live], from);
    const element* in = elements(window.in) + channel * window.in_plane +
                      (S * std::ptrdiff_t{row_begin} - window.padding_y) * window.in_row + S * column - window.padding_x;
    in = feed<0, K - S>(in);
    for (int row = row_begin; row < row_end; ++row) {
      in = feed<K - S, K>(in);
      Tile<1, N> done;
      JCW_UNROLL
      for (int n = 0; n < N; ++n) {
        done.sum[0][n] = tile.sum[0][n];
        JCW_UNROLL
        for (int live = 1; live < kLive; ++live) tile.sum[live - 1][n] = tile.sum[live][n];
      }
      start(tile.sum[kLive - 1], from);
      finish_plane<N>(done, window.target, channel, row * window.out_row + column);
    }
  }
};

// Rows as equal strips of as many vectors as pay at this stride.
template <int S>
struct StripCut {
  static constexpr int most = Isa::strip_vectors[S - 1];
  int vectors, strips, each;

  explicit StripCut(int width)
      : vectors((width + Isa::width - 1) / Isa::width),
        strips((vectors + most - 1) / most),
        each((vectors + strips - 1) / strips) {}

  int lanes() const { return strips * each * Isa::width; }
};

template <int K, int S, bool weighted>
struct Strips {
  const Windowed& window;
  int row_begin, row_end, channel_begin, channel_end;

  // Rows go in order and strips from right to left: what is written past a row's end is written again. The
  // rightmost strip overlaps its neighbour.
  template <int N, bool alone>
  __attribute__((noinline)) void walk(int vectors) const {
    const Windowed known = window;  // what is stored cannot alias it, so it stays in registers
    for (int channel = channel_begin; channel < channel_end; ++channel) {
      end_rows(known.target, known.out_row, {row_begin, row_end}, channel, vectors * Isa::width);
      for (int at = (vectors - 1) / N * N; at >= 0; at -= N) {
        Strip<K, S, weighted, alone, N> strip{known, channel, smaller(at, vectors - N) * Isa::width, {}, {}};
        strip.run(row_begin, row_end);
      }
    }
  }

  template <int N>
  void choose(const StripCut<S>& cut) const {
    if (cut.each < N) {
      if constexpr (N > 1) choose<N - 1>(cut);
    } else if (cut.strips == 1 && cut.lanes() >= window.width + (K - 1) / S) {
      walk<N, true>(N);
    } else {
      walk<N, false>(cut.vectors);
    }
  }

  void run() const { choose<StripCut<S>::most>(StripCut<S>(window.width)); }
};

template <int K>
void windowed_by_two(const Windowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  if (K == 3 && !window.maximum && windowed_pairs(window, row_begin, row_end, channel_begin, channel_end)) return;
  if (window.maximum)
    Strips<K, 2, false>{window, row_begin, row_end, channel_begin, channel_end}.run();
  else
    Strips<K, 2, true>{window, row_begin, row_end, channel_begin, channel_end}.run();
}

}  // namespace

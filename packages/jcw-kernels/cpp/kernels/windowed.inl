// Depthwise convolution, mean and max pooling with any window and stride, by taps as shifted start addresses:
//     out[c][p] = activation(bias[c] + residual[c][p] + sum over k of w[c][k] * in[c][p + offset[k]])
//     out[c][p] = activation(max over k of in[c][p + offset[k]])
// for pixels p of the flat run of a plane; offsets are those of convolve.inl. A mean has equal weights. NaN passes both.
#pragma once

#include "parts.inl"

namespace {

using jcw::Windowed;

struct WindowedTiles {
  const Windowed& window;
  int channel;

  template <int N>
  JCW_INLINE void run(int first, int tiles) const {
    for (int t = 0; t < tiles; ++t) one<N>(std::ptrdiff_t{first + t * N} * Isa::width);
  }

  template <int N>
  JCW_INLINE void one(std::ptrdiff_t pixel) const {
    const element* in = elements(window.in) + channel * window.in_plane + pixel;
    Tile<1, N> tile;
    if (!window.maximum) {
      const float* weights = window.weights + std::ptrdiff_t{channel} * window.taps;
      const vec from = start_of(window.target, channel);
      JCW_UNROLL
      for (int n = 0; n < N; ++n) tile.sum[0][n] = from;
      in_parts(tile, window.taps, [&](Tile<1, N>& part, int begin, int some) {
        for (int k = begin; k < begin + some; ++k) {
          const vec weight = Isa::set(weights[k]);
          JCW_UNROLL
          for (int n = 0; n < N; ++n)
            part.sum[0][n] = Isa::fma(Isa::load(in + window.offsets[k] + n * Isa::width), weight, part.sum[0][n]);
        }
      });
    } else {
      JCW_UNROLL
      for (int n = 0; n < N; ++n) tile.sum[0][n] = Isa::load(in + window.offsets[0] + n * Isa::width);
      for (int k = 1; k < window.taps; ++k) {
        JCW_UNROLL
        for (int n = 0; n < N; ++n)
          tile.sum[0][n] = Isa::largest(tile.sum[0][n], Isa::load(in + window.offsets[k] + n * Isa::width));
      }
    }
    finish_plane<N>(tile, window.target, channel, pixel);
  }
};

void windowed(const Windowed& window, int block_begin, int block_end, int channel_begin, int channel_end) {
  for (int channel = channel_begin; channel < channel_end; ++channel)
    split_tiles<Isa::plain_vectors>(block_begin * kVectorsPerBlock, block_end * kVectorsPerBlock,
                                    WindowedTiles{window, channel});
}

}  // namespace

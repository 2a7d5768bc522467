// What touches every pixel once: element-wise operations, changes of layout, means.
#pragma once

#include "tile.inl"

namespace {

using jcw::Binary;
using jcw::Elementwise;
using jcw::GlobalMean;
using jcw::Relayout;

struct ElementwiseTiles {
  const Elementwise& layer;
  int channel;

  template <int N>
  JCW_INLINE void run(int first, int tiles) const {
    const float* a = layer.a + channel * layer.a_plane;
    const float* b = layer.b ? layer.b + channel * layer.b_plane : a;
    const vec factor = Isa::set(layer.op == Binary::scale ? *b : 1.0f);
    for (int t = 0; t < tiles; ++t) {
      const std::ptrdiff_t pixel = std::ptrdiff_t{first + t * N} * Isa::width;
      Tile<1, N> tile;
      JCW_UNROLL
      for (int n = 0; n < N; ++n) {
        const vec x = Isa::load(a + pixel + n * Isa::width);
        if (layer.op == Binary::add)
          tile.sum[0][n] = x + Isa::load(b + pixel + n * Isa::width);
        else if (layer.op == Binary::mul)
          tile.sum[0][n] = x * Isa::load(b + pixel + n * Isa::width);
        else
          tile.sum[0][n] = x * factor;
      }
      finish<1, N>(tile, layer.target, channel, pixel);
    }
  }
};

void elementwise(const Elementwise& layer, int block_begin, int block_end, int channel_begin, int channel_end) {
  for (int channel = channel_begin; channel < channel_end; ++channel)
    split_tiles<4>(block_begin * kVectorsPerBlock, block_end * kVectorsPerBlock, ElementwiseTiles{layer, channel});
}

// A constant stride lets the compiler shuffle whole vectors.
template <int stride>
JCW_INLINE void copy_row(float* __restrict out, const float* __restrict in, int count) {
  for (int x = 0; x < count; ++x) out[x] = in[x * stride];
}

// `next` is the row that will be split after this one.
template <class I = Isa>
JCW_INLINE void split_row(float* __restrict even, float* __restrict odd, const float* __restrict in, int width,
                          const float* next) {
  int x = 0;
  for (; 2 * (x + Isa::width) <= width; x += Isa::width) {
    if constexpr (I::prefetches_all) prefetch(next + 2 * x);
    vec evens, odds;
    Isa::load_pair(in + 2 * x, evens, odds);
    Isa::store(even + x, evens);
    Isa::store(odd + x, odds);
  }
  if constexpr (I::has_masks) {
    I::split_part(in + 2 * x, width - 2 * x, even + x, odd + x);
  } else {
    copy_row<2>(even + x, in + 2 * x, (width + 1) / 2 - x);
    copy_row<2>(odd + x, in + 2 * x + 1, width / 2 - x);
  }
}

void relayout(const Relayout& move, int channel_begin, int channel_end) {
  const int rows = (move.height - move.phase_y + move.stride_y - 1) / move.stride_y;
  const int columns = (move.width - move.phase_x + move.stride_x - 1) / move.stride_x;
  for (int channel = channel_begin; channel < channel_end; ++channel)
    for (int y = 0; y < rows; ++y) {
      const float* in = move.in + channel * move.in_plane +
                        (std::ptrdiff_t{y} * move.stride_y + move.phase_y) * move.in_row + move.phase_x;
      float* out = move.out + channel * move.out_plane + y * move.out_row;
      if (move.odd)
        split_row(out, move.odd + (out - move.out), in, move.width, in + move.stride_y * move.in_row);
      else if (move.stride_x == 1)
        copy_row<1>(out, in, columns);
      else if (move.stride_x == 2)
        copy_row<2>(out, in, columns);
      else
        for (int x = 0; x < columns; ++x) out[x] = in[x * move.stride_x];
    }
}

// The sum of all lanes, in every lane.
template <int apart = Isa::width / 2>
JCW_INLINE vec total(vec x) {
  if constexpr (apart == 0)
    return x;
  else
    return total<apart / 2>(x + Isa::slide<apart>(x, x));
}

void global_mean(const GlobalMean& mean, int channel_begin, int channel_end) {
  for (int channel = channel_begin; channel < channel_end; ++channel) {
    const float* in = mean.in + channel * mean.in_plane;
    vec sum[4] = {Isa::set(0.0f), Isa::set(0.0f), Isa::set(0.0f), Isa::set(0.0f)};
    int i = 0;
    for (; i + 4 * Isa::width <= mean.run; i += 4 * Isa::width)
      for (int k = 0; k < 4; ++k) sum[k] = sum[k] + Isa::load(in + i + k * Isa::width);
    for (; i + Isa::width <= mean.run; i += Isa::width) sum[0] = sum[0] + Isa::load(in + i);
    float all = total((sum[0] + sum[1]) + (sum[2] + sum[3]))[0];
    for (; i < mean.run; ++i) all += in[i];
    mean.out[channel] = all / static_cast<float>(mean.pixels);
  }
}

}  // namespace

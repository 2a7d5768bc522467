// Element-wise operations, copies between layouts and means: kernels that touch every pixel once.
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
    const element* a = elements(layer.a) + channel * layer.a_plane;
    const element* b = layer.b ? elements(layer.b) + channel * layer.b_plane : a;
    const vec factor = Isa::set(layer.op == Binary::scale ? static_cast<float>(*b) : 1.0f);
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

JCW_INLINE void copy_row(element* __restrict out, const element* __restrict in, int count) {
  for (int x = 0; x < count; ++x) out[x] = in[x];
}

void relayout(const Relayout& move, int channel_begin, int channel_end) {
  for (int channel = channel_begin; channel < channel_end; ++channel)
    for (int y = 0; y < move.height; ++y)
      copy_row(elements(move.out) + channel * move.out_plane + y * move.out_row,
               elements(move.in) + channel * move.in_plane + y * move.in_row, move.width);
}

// The sum of all lanes, in every lane.
template <int apart = Floats::width / 2>
JCW_INLINE Floats::vec total(Floats::vec x) {
  if constexpr (apart == 0)
    return x;
  else
    return total<apart / 2>(x + Floats::slide<apart>(x, x));
}

void global_mean(const GlobalMean& mean, int channel_begin, int channel_end) {
  for (int channel = channel_begin; channel < channel_end; ++channel) {
    const element* in = elements(mean.in) + channel * mean.in_plane;
    constexpr int width = Floats::width;
    Floats::vec sum[4] = {Floats::set(0.0f), Floats::set(0.0f), Floats::set(0.0f), Floats::set(0.0f)};
    int i = 0;
    for (; i + 4 * width <= mean.run; i += 4 * width)
      for (int k = 0; k < 4; ++k) sum[k] = sum[k] + load_floats(in + i + k * width);
    for (; i + width <= mean.run; i += width) sum[0] = sum[0] + load_floats(in + i);
    float all = total((sum[0] + sum[1]) + (sum[2] + sum[3]))[0];
    for (; i < mean.run; ++i) all += static_cast<float>(in[i]);
    elements(mean.out)[channel] = static_cast<element>(all / static_cast<float>(mean.pixels));
  }
}

}  // namespace

// Convolution over flat runs of pixels. With p = y * row + x a pixel of the output and the same place in any input plane,
//     out[o][p] = activation(bias[o] + residual[o][p] + sum over kept (i, ky, kx) of w[o][i][ky][kx] * in[i][p + offset])
//     offset = (ky - padding_y) * row + kx - padding_x
// at a stride of one; zeros between the rows and planes are the padding. At other strides in[i] are planes of phases, in which
// offsets are found likewise (model/windows.hpp). R adjacent output channels o share each load: N vectors of pixels feed R rows
// of N accumulators. Sparse layers use R = 4, the weight group of the paper, and leave out groups whose four weights are zero.
#pragma once

#include "parts.inl"

namespace {

using jcw::Convolution;

template <int R, int N, int r = 0>
JCW_INLINE void multiply(Tile<R, N>& tile, const vec (&x)[N], const element* weights) {
  if constexpr (r < R) {
    JCW_UNROLL
    for (int n = 0; n < N; ++n) tile.sum[r][n] = Isa::fma_weight<r>(x[n], weights, tile.sum[r][n]);
    multiply<R, N, r + 1>(tile, x, weights);
  }
}

constexpr int kLine = 64 / sizeof(element);
// How many entries ahead offsets are fetched. Prefetches may pass the end of a list.
constexpr int kOffsetsAhead = 5 * jcw::kAhead;

// sum += weight * pixels over `count` entries. Inputs are fetched kAhead entries ahead, and offsets before those.
template <int R, int N>
JCW_INLINE void accumulate(Tile<R, N>& tile, const element* in, const std::int32_t* offsets, const element* weights,
                           int count) {
  for (int e = 0; e < count; ++e) {
    const element* ahead = in + offsets[e + jcw::kAhead];
    JCW_UNROLL
    for (int n = 0; n < N * Isa::width; n += kLine) prefetch(ahead + n);
    if constexpr (Isa::prefetches_all) {
      prefetch(ahead + N * Isa::width - 1);  // tiles begin anywhere in a line
      prefetch(offsets + e + kOffsetsAhead);
    }
    prefetch(weights + Isa::weights_ahead);
    const element* at = in + offsets[e];
    vec x[N];
    JCW_UNROLL
    for (int n = 0; n < N; ++n) x[n] = Isa::load(at + n * Isa::width);
    multiply<R, N>(tile, x, weights);
    weights += R;
  }
}

// The same where there may be more entries than half precision adds up.
template <int R, int N>
JCW_INLINE void accumulate_all(Tile<R, N>& tile, const element* in, const std::int32_t* offsets, const element* weights,
                               int count) {
  in_parts(tile, count, [&](Tile<R, N>& part, int first, int some) {
    accumulate<R, N>(part, in, offsets + first, weights + std::ptrdiff_t{first} * R, some);
  });
}

template <int R, int N>
JCW_INLINE void start(Tile<R, N>& tile, const float* bias) {
  JCW_UNROLL
  for (int r = 0; r < R; ++r) {
    const vec from = Isa::set(bias[r]);
    JCW_UNROLL
    for (int n = 0; n < N; ++n) tile.sum[r][n] = from;
  }
}

template <int R>
struct ConvolveTiles {
  const Convolution& conv;
  int group_begin, group_end;

  // Whole groups, one block, no activation but bounds. With few entries a tile is bound by its stores, so it must leave
  // the stack alone.
  template <Clamp clamp, int N>
  __attribute__((noinline)) void pass(int whole, std::ptrdiff_t pixel, int tiles) const {
    const Target& to = conv.target;
    const std::ptrdiff_t plane = to.out_plane;
    for (int group = group_begin; group < whole; ++group) {
      const std::int32_t first = conv.starts[group], count = conv.starts[group + 1] - first;
      const std::int32_t* offsets = conv.offsets + (conv.dense_starts ? conv.dense_starts[0] : first);
      const element* weights = elements(conv.weights) + std::ptrdiff_t{first} * R;
      const element* in = elements(conv.in) + pixel;
      const std::uint32_t* mask = to.mask + pixel;
      const element* residual = to.residual ? elements(to.residual) + group * R * to.residual_plane + pixel : nullptr;
      element* out = elements(to.out) + group * R * plane + pixel;
      for (int i = 0; i < tiles; ++i) {
        if constexpr (Isa::prefetches_all) prefetch_outputs<N>(group + 1, pixel + i * N * Isa::width);
        Tile<R, N> tile;
        start(tile, to.bias + group * R);
        accumulate_all<R, N>(tile, in, offsets, weights, count);
        if (residual) {
          add<R, N>(tile, residual, to.residual_plane, R);
          residual += N * Isa::width;
        }
        store<clamp, R, N>(tile, out, plane, mask, R, Bounds<clamp>::anew());
        in += N * Isa::width;
        mask += N * Isa::width;
        out += N * Isa::width;
      }
    }
  }

  template <int N>
  void pass(int whole, std::ptrdiff_t pixel, int tiles) const {
    switch (clamp_of(conv.target.activation)) {
      case Clamp::none: return pass<Clamp::none, N>(whole, pixel, tiles);
      case Clamp::low: return pass<Clamp::low, N>(whole, pixel, tiles);
      case Clamp::both: return pass<Clamp::both, N>(whole, pixel, tiles);
    }
  }

  template <int N>
  JCW_INLINE void one(int block, int group, std::ptrdiff_t pixel) const {
    const Target& to = conv.target;
    const int index = block * conv.groups + group;
    const std::int32_t first = conv.starts[index], count = conv.starts[index + 1] - first;
    const std::int32_t offset = conv.dense_starts ? conv.dense_starts[block] : first;
    if constexpr (Isa::prefetches_all) prefetch_outputs<N>(group + 1, pixel);
    Tile<R, N> tile;
    if (block > 0 && !kHalf)
      resume(tile, group, pixel);
    else if (block > 0 || to.scales)
      tile = {};
    else
      start(tile, to.bias + group * R);
    accumulate_all<R, N>(tile, elements(conv.in) + pixel, conv.offsets + offset,
                         elements(conv.weights) + std::ptrdiff_t{first} * R, count);
    // In half precision as one part more: products that were added to the sums so far would lose digits by these.
    if (block > 0 && kHalf)
      add<R, N>(tile, elements(to.out) + group * R * to.out_plane + pixel, to.out_plane, smaller(R, to.channels - group * R));
    if (block + 1 < conv.blocks) return suspend(tile, group, pixel);
    if (to.scales) scale(tile, to.scales + group * R, to.bias + group * R);
    finish<R, N>(tile, to, group * R, pixel);
  }

  // A group passes before another one's outputs are read or written.
  template <int N>
  JCW_INLINE void prefetch_outputs(int group, std::ptrdiff_t pixel) const {
    if (!conv.target.out) return;
    JCW_UNROLL
    for (int r = 0; r < R; ++r) {
      const element* out =
          elements(conv.target.out) + smaller(group * R + r, conv.target.channels - 1) * conv.target.out_plane + pixel;
      JCW_UNROLL
      for (int n = 0; n < N * Isa::width; n += kLine) prefetch(out + n);
      prefetch(out + N * Isa::width - 1);
    }
  }

  // Between blocks of input channels the sums wait in the output.
  template <int N>
  JCW_INLINE void resume(Tile<R, N>& tile, int group, std::ptrdiff_t pixel) const {
    const Target& to = conv.target;
    JCW_UNROLL
    for (int r = 0; r < R; ++r) {
      const int channel = smaller(group * R + r, to.channels - 1);
      JCW_UNROLL
      for (int n = 0; n < N; ++n)
        tile.sum[r][n] = Isa::load(elements(to.out) + channel * to.out_plane + pixel + n * Isa::width);
    }
  }

  template <int N>
  JCW_INLINE void suspend(const Tile<R, N>& tile, int group, std::ptrdiff_t pixel) const {
    const Target& to = conv.target;
    JCW_UNROLL
    for (int r = 0; r < R; ++r) {
      if (group * R + r >= to.channels) break;
      JCW_UNROLL
      for (int n = 0; n < N; ++n)
        Isa::store(elements(to.out) + (group * R + r) * to.out_plane + pixel + n * Isa::width, tile.sum[r][n]);
    }
  }

  // With one block, two tiles share each visit of a group's weights; with several, one tile stays in
  // cache while all groups pass over it.
  template <int N>
  __attribute__((noinline)) void run(int first, int tiles) const {
    const bool plain = conv.blocks == 1 && only_clamps(conv.target.activation) && !conv.target.numbers.out && !conv.target.scales;
    const int whole = plain ? smaller(group_end, conv.target.channels / R) : group_begin;
    const int step = conv.blocks > 1 ? 1 : 2;
    for (int t = 0; t < tiles; t += step) {
      const int last = smaller(tiles, t + step);
      if (group_begin < whole) pass<N>(whole, std::ptrdiff_t{first + t * N} * Isa::width, last - t);
      for (int block = 0; block < conv.blocks; ++block)
        for (int group = larger(group_begin, whole); group < group_end; ++group)
          for (int i = t; i < last; ++i) one<N>(block, group, std::ptrdiff_t{first + i * N} * Isa::width);
    }
  }
};

constexpr int kPixelsPerBlock = larger(jcw::kBlock, Isa::width), kVectorsPerBlock = kPixelsPerBlock / Isa::width;

void convolve(const Convolution& conv, int block_begin, int block_end, int group_begin, int group_end) {
  split_tiles<Isa::sparse_vectors>(block_begin * kVectorsPerBlock, block_end * kVectorsPerBlock,
                                   ConvolveTiles<4>{conv, group_begin, group_end});
}

void convolve_dense(const Convolution& conv, int block_begin, int block_end, int group_begin, int group_end) {
  split_tiles<Isa::dense_vectors>(block_begin * kVectorsPerBlock, block_end * kVectorsPerBlock,
                                  ConvolveTiles<Isa::dense_channels>{conv, group_begin, group_end});
}

// The tile loop with everything in L1: the rate that layers are judged by.
float peak(int rounds, const void* data) {
  constexpr int N = Isa::sparse_vectors, entries = 32;
  static constexpr std::int32_t offsets[entries + kOffsetsAhead] = {0,   256, 512, 768, 64,  320, 576, 832, 128, 384,
                                                                  640, 896, 192, 448, 704, 960, 0,   256, 512, 768};
  Tile<4, N> tile = {};
  for (int i = 0; i < rounds; ++i) accumulate<4, N>(tile, elements(data), offsets, elements(data), entries);
  vec total = tile.sum[0][0];
  JCW_UNROLL
  for (int r = 0; r < 4; ++r) {
    JCW_UNROLL
    for (int n = 0; n < N; ++n) total = total + tile.sum[r][n];
  }
  element lanes[Isa::width];
  Isa::store(lanes, total);
  return static_cast<float>(lanes[0]);
}

}  // namespace

// Convolution of whole numbers. A pixel is a number q of 0 to 255 that stands for (q - zero) * scale of its tensor, a weight one
// of -127 to 127 that stands for itself times a scale of its output channel:
//     sum[o][p] = sum over kept (i, ky, kx) of w[o][i][ky][kx] * (q[i][p + offset] - zero)
//     out[o][p] = activation(sum[o][p] * scales[o] + bias[o] + residual[o][p])
// with offsets as in convolve.inl; padding holds `zero`. Four adjacent output channels share each load here as well, and as many
// kept inputs as one instruction adds up, wherever they lie, are interleaved in registers: Dot::inputs of them, pixel by pixel.
// Where all outputs read all inputs, these are interleaved once for all groups of outputs, and kept.
// Products and sums are exact, and floats take no fused multiply-add, so that every instruction set has the same bits.
#pragma once

#include "tile.inl"

namespace {

using jcw::QuantizedConvolution;

template <class Pixel>
void quantize(const jcw::Quantize& q, std::ptrdiff_t begin, std::ptrdiff_t end) {
  auto* const out = static_cast<Pixel*>(q.out);
  const Rounded rounded(q.rounding);
  for (std::ptrdiff_t i = begin; i < end; i += Isa::width) rounded.store(out + i, Isa::load(q.in + i));
}

template <class Dot, int N>
struct Sums {
  typename Dot::vec sum[4][N];
};

template <class Dot, int N, class Pixels, int r = 0>
JCW_INLINE void add_products(Sums<Dot, N>& sums, const Pixels (&x)[N], const typename Dot::weight* weights) {
  if constexpr (r < 4) {
    JCW_UNROLL
    for (int n = 0; n < N; ++n) sums.sum[r][n] = Dot::template add<r>(x[n], weights, sums.sum[r][n]);
    add_products<Dot, N, Pixels, r + 1>(sums, x, weights);
  }
}

// What a Dot keeps of its inputs: all of them in the lanes of sums, or one in fewer bits.
template <class Dot, class = void>
struct PixelsOf {
  using type = typename Dot::vec;
};
template <class Dot>
struct PixelsOf<Dot, std::void_t<typename Dot::pixels>> {
  using type = typename Dot::pixels;
};

// Whether a Dot writes N vectors of sums as pixels that lie as its loads leave them.
template <class Dot, int N>
constexpr bool kStoresSums = requires(typename Dot::pixel* out, const Rounded<>::ints (&numbers)[N], const std::uint32_t* mask) {
  Dot::store(out, numbers, Dot::kept(mask), 0);
};

// How many products ahead offsets and weights are fetched. Prefetches may pass their end.
constexpr int kProductsAhead = 32;

template <class Dot, int N>
JCW_INLINE void accumulate(Sums<Dot, N>& sums, const typename Dot::pixel* in, const std::int32_t* offsets,
                           const typename Dot::weight* weights, int products) {
  for (int p = 0; p < products; ++p) {
    const typename Dot::pixel* rows[Dot::inputs];
    JCW_UNROLL
    for (int i = 0; i < Dot::inputs; ++i) {
      prefetch(in + offsets[jcw::kAhead + i]);
      rows[i] = in + offsets[i];
    }
    if constexpr (Isa::prefetches_all) {
      prefetch(offsets + kProductsAhead * Dot::inputs);
      prefetch(weights + kProductsAhead * Dot::inputs * 4);
    }
    typename PixelsOf<Dot>::type x[N];
    Dot::load(rows, x);
    add_products(sums, x, weights);
    offsets += Dot::inputs;
    weights += 4 * Dot::inputs;
  }
}

template <class Dot, int N>
JCW_INLINE void accumulate(Sums<Dot, N>& sums, const typename PixelsOf<Dot>::type* gathered, const typename Dot::weight* weights,
                           int products) {
  for (int p = 0; p < products; ++p, gathered += N, weights += 4 * Dot::inputs) {
    typename PixelsOf<Dot>::type x[N];
    JCW_UNROLL
    for (int n = 0; n < N; ++n) x[n] = gathered[n];
    if constexpr (Isa::prefetches_all) prefetch(weights + kProductsAhead * Dot::inputs * 4);
    add_products(sums, x, weights);
  }
}

template <class Dot>
struct QuantizedTiles {
  using Pixel = typename Dot::pixel;
  using Pixels = typename PixelsOf<Dot>::type;

  const QuantizedConvolution& conv;
  int group_begin, group_end;
  bool only_numbers = !conv.target.out && !conv.target.residual && conv.target.numbers.bytes == sizeof(Pixel);

  // What all groups read of a tile.
  template <int N>
  JCW_INLINE void gather(std::ptrdiff_t pixel) const {
    const Pixel* const in = static_cast<const Pixel*>(conv.in) + pixel;
    const std::int32_t* offsets = conv.offsets;
    Pixels* to = static_cast<Pixels*>(conv.gathered);
    for (int products = conv.starts[1]; products > 0; --products, to += N, offsets += Dot::inputs) {
      const Pixel* rows[Dot::inputs];
      JCW_UNROLL
      for (int i = 0; i < Dot::inputs; ++i) rows[i] = in + offsets[i];
      Pixels x[N];
      Dot::load(rows, x);
      JCW_UNROLL
      for (int n = 0; n < N; ++n) to[n] = x[n];
    }
  }

  template <int N, bool gathered>
  JCW_INLINE void one(int group, std::ptrdiff_t pixel) const {
    const std::int32_t first = conv.starts[group], count = conv.starts[group + 1] - first;
    if constexpr (Isa::prefetches_all) prefetch_outputs(group + 1, pixel);
    Sums<Dot, N> sums;
    JCW_UNROLL
    for (int r = 0; r < 4; ++r) {
      const typename Dot::vec from = Dot::set(conv.first[4 * group + r]);
      JCW_UNROLL
      for (int n = 0; n < N; ++n) sums.sum[r][n] = from;
    }
    const auto* const weights = static_cast<const typename Dot::weight*>(conv.weights) + std::ptrdiff_t{first} * 4 * Dot::inputs;
    if constexpr (gathered)
      accumulate<Dot, N>(sums, static_cast<const Pixels*>(conv.gathered), weights, count);
    else
      accumulate<Dot, N>(sums, static_cast<const Pixel*>(conv.in) + pixel, conv.offsets + first * Dot::inputs, weights, count);
    if constexpr (kStoresSums<Dot, N>)
      if (only_numbers) return store_sums(sums, group, pixel);
    Tile<4, N> tile;
    JCW_UNROLL
    for (int r = 0; r < 4; ++r) Dot::to_floats(sums.sum[r], tile.sum[r]);
    scale(tile, conv.target.scales + 4 * group, conv.target.bias + 4 * group);
    finish<4, N>(tile, conv.target, 4 * group, pixel);
  }

  // scale and finish, but for the order of pixels, which is only made in memory.
  template <int N>
  JCW_INLINE void store_sums(const Sums<Dot, N>& sums, int group, std::ptrdiff_t pixel) const {
    const Target& to = conv.target;
    const Rounded rounded(to.numbers.rounding);
    const auto kept = Dot::kept(to.mask + pixel);
    const int rows = smaller(4, to.channels - 4 * group);
    Pixel* out = static_cast<Pixel*>(to.numbers.out) + 4 * group * to.numbers.plane + pixel;
    JCW_UNROLL
    for (int r = 0; r < 4; ++r, to_next_plane(out, to.numbers.plane)) {
      if (r >= rows) break;
      const vec by = Isa::set(to.scales[4 * group + r]), more = Isa::set(to.bias[4 * group + r]);
      Rounded<>::ints numbers[N];
      JCW_UNROLL
      for (int n = 0; n < N; ++n) numbers[n] = rounded.bits(Dot::floats(sums.sum[r][n]) * by + more) - rounded.base;
      Dot::store(out, numbers, kept, to.numbers.rounding.zero);
    }
  }

  // A group passes before another one's outputs are read or written.
  JCW_INLINE void prefetch_outputs(int group, std::ptrdiff_t pixel) const {
    const Target& to = conv.target;
    if (to.numbers.out) prefetch_rows(static_cast<const char*>(to.numbers.out), to.numbers.plane, to.numbers.bytes, group, pixel);
    if (to.out) prefetch_rows(reinterpret_cast<const char*>(to.out), to.out_plane, sizeof(float), group, pixel);
  }

  JCW_INLINE void prefetch_rows(const char* out, std::ptrdiff_t plane, int bytes, int group, std::ptrdiff_t pixel) const {
    const char* at = out + (4 * group * plane + pixel) * bytes;
    const int rows = smaller(4, conv.target.channels - 4 * group);
    for (int r = 0; r < rows; ++r, at += plane * bytes) prefetch(at);
  }

  template <int units>
  __attribute__((noinline)) void run(int first, int tiles) const {
    if (conv.gathered)
      run_gathered<units>(first, tiles);
    else
      run_sparse<units>(first, tiles);
  }

  // Two tiles share each visit of a group's weights.
  template <int units>
  JCW_INLINE void run_sparse(int first, int tiles) const {
    constexpr int N = units * Dot::granule;
    for (int t = 0; t < tiles; t += 2)
      for (int group = group_begin; group < group_end; ++group)
        for (int i = t; i < smaller(tiles, t + 2); ++i)
          one<N, false>(group, std::ptrdiff_t{first * Dot::granule + i * N} * Isa::width);
  }

  template <int units>
  JCW_INLINE void run_gathered(int first, int tiles) const {
    constexpr int N = units * Dot::granule;
    for (int t = 0; t < tiles; ++t) {
      const std::ptrdiff_t pixel = std::ptrdiff_t{first * Dot::granule + t * N} * Isa::width;
      gather<N>(pixel);
      for (int group = group_begin; group < group_end; ++group) one<N, true>(group, pixel);
    }
  }
};

template <class Dot>
void convolve_quantized(const QuantizedConvolution& conv, int block_begin, int block_end, int group_begin, int group_end) {
  constexpr int units = jcw::kBlock / (Dot::granule * Isa::width);
  split_tiles<Dot::units>(block_begin * units, block_end * units, QuantizedTiles<Dot>{conv, group_begin, group_end});
}

}  // namespace

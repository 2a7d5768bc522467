// Convolution of whole numbers. A pixel is a number q of 0 to 255 that stands for (q - zero) * scale of its tensor, a weight one
// of -127 to 127 that stands for itself times a scale of its output channel:
//     sum[o][p] = sum over kept (i, ky, kx) of w[o][i][ky][kx] * (q[i][p + offset] - zero)
//     out[o][p] = activation(sum[o][p] * scales[o] + bias[o] + residual[o][p])
// with offsets as in convolve.inl; padding holds `zero`. Four adjacent output channels share each load here as well, and as many
// kept inputs as one instruction adds up, wherever they lie, are interleaved in registers: Dot::inputs of them, pixel by pixel.
// Products and sums are exact, and floats take no fused multiply-add, so that every instruction set has the same bits.
// A depthwise convolution interleaves taps of one plane in the same way, for one channel (QuantizedWindowTiles), or reads adjacent
// pixels as the taps of a product (NumberWindows).
#pragma once

#include "tile.inl"

namespace {

using jcw::QuantizedConvolution;
using jcw::QuantizedWindowed;

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

template <class Dot>
struct QuantizedTiles {
  const QuantizedConvolution& conv;
  int group_begin, group_end;

  template <int N>
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
    accumulate<Dot, N>(sums, static_cast<const typename Dot::pixel*>(conv.in) + pixel, conv.offsets + first * Dot::inputs,
                       static_cast<const typename Dot::weight*>(conv.weights) + std::ptrdiff_t{first} * 4 * Dot::inputs, count);
    Tile<4, N> tile;
    JCW_UNROLL
    for (int r = 0; r < 4; ++r) Dot::to_floats(sums.sum[r], tile.sum[r]);
    scale(tile, conv.target.scales + 4 * group, conv.target.bias + 4 * group);
    finish<4, N>(tile, conv.target, 4 * group, pixel);
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

  // Two tiles share each visit of a group's weights.
  template <int units>
  __attribute__((noinline)) void run(int first, int tiles) const {
    constexpr int N = units * Dot::granule;
    for (int t = 0; t < tiles; t += 2)
      for (int group = group_begin; group < group_end; ++group)
        for (int i = t; i < smaller(tiles, t + 2); ++i)
          one<N>(group, std::ptrdiff_t{first * Dot::granule + i * N} * Isa::width);
  }
};

template <class Dot>
void convolve_quantized(const QuantizedConvolution& conv, int block_begin, int block_end, int group_begin, int group_end) {
  constexpr int units = jcw::kBlock / (Dot::granule * Isa::width);
  split_tiles<Dot::units>(block_begin * units, block_end * units, QuantizedTiles<Dot>{conv, group_begin, group_end});
}

template <class Dot>
struct QuantizedWindowTiles {
  const QuantizedWindowed& window;
  int channel_begin, channel_end;

  template <int N>
  static JCW_INLINE void one(const QuantizedWindowed& window, int channel, std::ptrdiff_t pixel) {
    const auto* in = static_cast<const typename Dot::pixel*>(window.in) + channel * window.in_plane + pixel;
    const auto* weights = static_cast<const typename Dot::weight*>(window.weights) + std::ptrdiff_t{channel} * window.products * Dot::inputs;
    const std::int32_t* offsets = window.offsets;
    typename Dot::vec sums[N];
    JCW_UNROLL
    for (int n = 0; n < N; ++n) sums[n] = Dot::set(window.first[channel]);
    for (int p = 0; p < window.products; ++p, offsets += Dot::inputs, weights += Dot::inputs) {
      const typename Dot::pixel* rows[Dot::inputs];
      JCW_UNROLL
      for (int i = 0; i < Dot::inputs; ++i) rows[i] = in + offsets[i];
      typename PixelsOf<Dot>::type x[N];
      Dot::load(rows, x);
      JCW_UNROLL
      for (int n = 0; n < N; ++n) sums[n] = Dot::template add<0>(x[n], weights, sums[n]);
    }
    Tile<1, N> tile;
    Dot::to_floats(sums, tile.sum[0]);
    scale(tile, window.target.scales + channel, window.target.bias + channel);
    finish<1, N>(tile, window.target, channel, pixel);
  }

  template <int units>
  __attribute__((noinline)) void run(int first, int tiles) const {
    constexpr int N = units * Dot::granule;
    const QuantizedWindowed known = window;  // what is stored cannot alias it, so it stays in registers
    for (int channel = channel_begin; channel < channel_end; ++channel)
      for (int t = 0; t < tiles; ++t) one<N>(known, channel, std::ptrdiff_t{first * Dot::granule + t * N} * Isa::width);
  }
};

template <class Dot>
void windowed_quantized(const QuantizedWindowed& window, int block_begin, int block_end, int channel_begin, int channel_end) {
  constexpr int units = jcw::kBlock / (Dot::granule * Isa::width);
  split_tiles<Dot::units>(block_begin * units, block_end * units, QuantizedWindowTiles<Dot>{window, channel_begin, channel_end});
}

// A lane of `inputs` adjacent pixels is what the taps of one product meet for the first of these. The vector that begins `s`
// pixels later has the same for the pixel `s` after it. So nothing moves between lanes, and numbers that are shifted to where their
// pixels lie in a lane come out in order. `products` is 0 where it is not known.
template <class Dot, int products>
struct NumberWindows {
  using Ints = typename Rounded<>::ints;
  using Pixel = typename Dot::pixel;
  static constexpr int kSteps = Dot::inputs, kPixels = Dot::inputs * Isa::width, kBits = 8 * sizeof(Pixel);

  const QuantizedWindowed& window;
  Rounded<> rounded;
  std::int32_t base, zeros, sign;  // of all pixels of a lane

  JCW_INLINE explicit NumberWindows(const QuantizedWindowed& w)
      : window(w), rounded(w.target.numbers.rounding), base(in_all(rounded.base - Dot::offset)), zeros(in_all(w.target.numbers.rounding.zero + Dot::offset)),
        sign(in_all(Dot::offset)) {}

  static JCW_INLINE std::int32_t in_all(std::int32_t number) {
    std::uint32_t all = 0;
    for (int s = 0; s < kSteps; ++s) all += static_cast<std::uint32_t>(number) << kBits * s;
    return static_cast<std::int32_t>(all);
  }

  JCW_INLINE void add_product(const Pixel* in, const typename Dot::weight* weights, typename Dot::vec (&sums)[kSteps]) const {
    JCW_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      typename Dot::vec x;
      __builtin_memcpy(&x, in + s, sizeof x);
      sums[s] = Dot::template add<0>(x, weights, sums[s]);
    }
  }

  JCW_INLINE void sum(int channel, std::ptrdiff_t pixel, typename Dot::vec (&sums)[kSteps]) const {
    const int count = products ? products : window.products;
    const Pixel* in = static_cast<const Pixel*>(window.in) + channel * window.in_plane + pixel;
    const auto* weights = static_cast<const typename Dot::weight*>(window.weights) + std::ptrdiff_t{channel} * count * kSteps;
    JCW_UNROLL
    for (int s = 0; s < kSteps; ++s) sums[s] = Dot::set(window.first[channel]);
    if constexpr (products) {
      JCW_UNROLL
      for (int p = 0; p < products; ++p) add_product(in + window.offsets[p], weights + p * kSteps, sums);
    } else {
      for (int p = 0; p < count; ++p) add_product(in + window.offsets[p], weights + p * kSteps, sums);
    }
  }

  JCW_INLINE void one(int channel, std::ptrdiff_t pixel) const {
    typename Dot::vec sums[kSteps];
    sum(channel, pixel, sums);
    const vec by = Isa::set(window.target.scales[channel]), more = Isa::set(window.target.bias[channel]);
    // Numbers of 0 to 255 do not carry into each other.
    Ints numbers = Ints{} - base;
    JCW_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      Ints whole;
      __builtin_memcpy(&whole, &sums[s], sizeof whole);
      numbers += rounded.bits(__builtin_convertvector(whole, vec) * by + more) << kBits * s;
    }
    Ints keep;
    __builtin_memcpy(&keep, static_cast<const Pixel*>(window.keep) + pixel, sizeof keep);
    numbers = ((numbers & keep) | (zeros & ~keep)) ^ sign;
    Pixel* const out = static_cast<Pixel*>(window.target.numbers.out) + channel * window.target.numbers.plane + pixel;
    __builtin_memcpy(out, &numbers, sizeof numbers);
  }

  // The last tile overlaps the one before it.
  __attribute__((noinline)) void run(std::ptrdiff_t begin, std::ptrdiff_t end, int channel_begin, int channel_end) const {
    const NumberWindows known = *this;
    for (int channel = channel_begin; channel < channel_end; ++channel) {
      std::ptrdiff_t pixel = begin;
      for (; pixel + kPixels <= end; pixel += kPixels) known.one(channel, pixel);
      if (pixel < end) known.one(channel, end - kPixels);
    }
  }
};

template <class Dot>
void windowed_numbers(const QuantizedWindowed& window, int block_begin, int block_end, int channel_begin, int channel_end) {
  const std::ptrdiff_t begin = std::ptrdiff_t{block_begin} * jcw::kBlock, end = std::ptrdiff_t{block_end} * jcw::kBlock;
  // A window of three rows and no more columns than a product has taps.
  if (window.products == 3) return NumberWindows<Dot, 3>(window).run(begin, end, channel_begin, channel_end);
  NumberWindows<Dot, 0>(window).run(begin, end, channel_begin, channel_end);
}

template <class Dot>
constexpr auto windowed_numbers_kernel() -> decltype(jcw::QuantizedKernels::windowed_numbers) {
  if constexpr (sizeof(typename Dot::pixel) * Dot::inputs == sizeof(std::int32_t)) return windowed_numbers<Dot>;
  return nullptr;
}

template <class Dot>
constexpr jcw::QuantizedKernels kQuantized = {
    .name = Dot::name,
    .pixel_bytes = sizeof(typename Dot::pixel),
    .weight_bytes = sizeof(typename Dot::weight),
    .inputs = Dot::inputs,
    .offset = Dot::offset,
    .taps = Dot::taps,
    .quantize = quantize<typename Dot::pixel>,
    .round = quantize<float>,
    .convolve = convolve_quantized<Dot>,
    .windowed = windowed_quantized<Dot>,
    .windowed_numbers = windowed_numbers_kernel<Dot>(),
};

}  // namespace

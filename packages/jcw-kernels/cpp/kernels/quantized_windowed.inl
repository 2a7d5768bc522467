// Depthwise convolution of whole numbers, which quantized.inl tells of. Adjacent pixels of a row are what the taps of one product
// multiply.
#pragma once

#include "quantized.inl"

namespace {

using jcw::QuantizedWindowed;

// Whether a lane of a sum is as long as the pixels of one product. Where these are adjacent, a vector of them is what as many
// outputs multiply that lie `inputs` pixels apart, and the one that begins a pixel later belongs to their neighbours.
template <class Dot>
constexpr bool kLanes = sizeof(typename Dot::pixel) * Dot::inputs == sizeof(std::int32_t);

template <class Dot>
JCW_INLINE vec floats_of(const typename Dot::vec& sum) {
  typename Rounded<>::ints whole;
  __builtin_memcpy(&whole, &sum, sizeof whole);
  return __builtin_convertvector(whole, vec);
}

// Sums of one plane: vector s has those of the pixels `s` and every `inputs` after it. `products` is 0 where it is not known.
template <class Dot, int products>
struct PlaneSums {
  using Pixel = typename Dot::pixel;
  using Weight = typename Dot::weight;
  static constexpr int kSteps = Dot::inputs, kPixels = kSteps * Isa::width;

  const QuantizedWindowed& window;

  // The vectors s * apart, for s below `vectors`, of pixels that lie `apart` apart.
  template <int vectors, int apart>
  static JCW_INLINE void add_product(const Pixel* in, const Weight* weights, typename Dot::vec (&sums)[vectors]) {
    JCW_UNROLL
    for (int s = 0; s < vectors; ++s) {
      typename Dot::vec x;
      __builtin_memcpy(&x, in + s * apart, sizeof x);
      sums[s] = Dot::template add<0>(x, weights, sums[s]);
    }
  }

  template <int vectors, int apart>
  JCW_INLINE void sum(int channel, const Pixel* in, typename Dot::vec (&sums)[vectors]) const {
    const int count = products ? products : window.products;
    const auto* weights = static_cast<const Weight*>(window.weights) + std::ptrdiff_t{channel} * count * kSteps;
    JCW_UNROLL
    for (int s = 0; s < vectors; ++s) sums[s] = Dot::set(window.first[channel]);
    if constexpr (products) {
      JCW_UNROLL
      for (int p = 0; p < products; ++p) add_product<vectors, apart>(in + window.offsets[p], weights + p * kSteps, sums);
    } else {
      for (int p = 0; p < count; ++p) add_product<vectors, apart>(in + window.offsets[p], weights + p * kSteps, sums);
    }
  }

  JCW_INLINE const Pixel* plane(int channel) const { return static_cast<const Pixel*>(window.in) + channel * window.in_plane; }

  JCW_INLINE void sum_at(int channel, std::ptrdiff_t pixel, typename Dot::vec (&sums)[kSteps]) const {
    sum<kSteps, 1>(channel, plane(channel) + pixel, sums);
  }
};

// To what is neither numbers alone nor without a residual.
template <class Dot, int products>
struct FloatWindows {
  using Sums = PlaneSums<Dot, products>;
  static constexpr int N = Sums::kSteps;

  const QuantizedWindowed& window;

  // Pixels in order.
  JCW_INLINE void values(int channel, std::ptrdiff_t pixel, Tile<1, N>& tile) const {
    typename Dot::vec sums[N];
    Sums{window}.sum_at(channel, pixel, sums);
    vec(&to)[N] = tile.sum[0];
    if constexpr (N == 4) {
      vec even[2], odd[2];
      Isa::interleave(floats_of<Dot>(sums[0]), floats_of<Dot>(sums[2]), even[0], even[1]);
      Isa::interleave(floats_of<Dot>(sums[1]), floats_of<Dot>(sums[3]), odd[0], odd[1]);
      Isa::interleave(even[0], odd[0], to[0], to[1]);
      Isa::interleave(even[1], odd[1], to[2], to[3]);
    } else {
      Isa::interleave(floats_of<Dot>(sums[0]), floats_of<Dot>(sums[1]), to[0], to[1]);
    }
    scale(tile, window.target.scales + channel, window.target.bias + channel);
  }

  __attribute__((noinline)) void run(std::ptrdiff_t begin, std::ptrdiff_t end, int channel_begin, int channel_end) const {
    const QuantizedWindowed known = window;  // what is stored cannot alias it, so it stays in registers
    const FloatWindows own{known};
    for (int channel = channel_begin; channel < channel_end; ++channel)
      for (std::ptrdiff_t pixel = begin; pixel < end; pixel += Sums::kPixels) {
        Tile<1, N> tile;
        own.values(channel, pixel, tile);
        if (pixel + Sums::kPixels <= end) {
          finish<1, N>(tile, known.target, channel, pixel);
          continue;
        }
        for (int n = 0; pixel + n * Isa::width < end; ++n) {
          Tile<1, 1> one{{{tile.sum[0][n]}}};
          finish<1, 1>(one, known.target, channel, pixel + n * Isa::width);
        }
      }
  }
};

// Numbers that are shifted to where their pixels lie in a lane come out in order.
template <class Dot, int products>
struct NumberWindows {
  using Sums = PlaneSums<Dot, products>;
  using Ints = typename Rounded<>::ints;
  using Pixel = typename Dot::pixel;
  static constexpr int kSteps = Sums::kSteps, kPixels = Sums::kPixels, kBits = 8 * sizeof(Pixel);

  const QuantizedWindowed& window;
  Rounded<> rounded;
  std::int32_t base, zeros, sign;  // of all pixels of a lane

  JCW_INLINE explicit NumberWindows(const QuantizedWindowed& w)
      : window(w),
        rounded(w.target.numbers.rounding),
        base(in_all(rounded.base - Dot::offset)),
        zeros(in_all(w.target.numbers.rounding.zero + Dot::offset)),
        sign(in_all(Dot::offset)) {}

  static JCW_INLINE std::int32_t in_all(std::int32_t number) {
    std::uint32_t all = 0;
    for (int s = 0; s < kSteps; ++s) all += static_cast<std::uint32_t>(number) << kBits * s;
    return static_cast<std::int32_t>(all);
  }

  JCW_INLINE void one(int channel, std::ptrdiff_t pixel) const {
    typename Dot::vec sums[kSteps];
    Sums{window}.sum_at(channel, pixel, sums);
    const vec by = Isa::set(window.target.scales[channel]), more = Isa::set(window.target.bias[channel]);
    // Numbers of 0 to 255 do not carry into each other.
    Ints numbers = Ints{} - base;
    JCW_UNROLL
    for (int s = 0; s < kSteps; ++s) numbers += rounded.bits(floats_of<Dot>(sums[s]) * by + more) << kBits * s;
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

// Where sums have lanes of another length: tap by tap.
template <class Dot>
struct TapTiles {
  const QuantizedWindowed& window;
  int channel_begin, channel_end;

  template <int N>
  static JCW_INLINE void one(const QuantizedWindowed& window, int channel, std::ptrdiff_t pixel) {
    const auto* in = static_cast<const typename Dot::pixel*>(window.in) + channel * window.in_plane + pixel;
    const auto* weights = static_cast<const typename Dot::weight*>(window.weights) + std::ptrdiff_t{channel} * window.products * Dot::inputs;
    typename Dot::vec sums[N];
    JCW_UNROLL
    for (int n = 0; n < N; ++n) sums[n] = Dot::set(window.first[channel]);
    for (int p = 0; p < window.products; ++p) {
      const typename Dot::pixel* rows[Dot::inputs];
      JCW_UNROLL
      for (int i = 0; i < Dot::inputs; ++i) rows[i] = in + window.offsets[p] + i;
      typename PixelsOf<Dot>::type x[N];
      Dot::load(rows, x);
      JCW_UNROLL
      for (int n = 0; n < N; ++n) sums[n] = Dot::template add<0>(x[n], weights + p * Dot::inputs, sums[n]);
    }
    Tile<1, N> tile;
    Dot::to_floats(sums, tile.sum[0]);
    scale(tile, window.target.scales + channel, window.target.bias + channel);
    finish<1, N>(tile, window.target, channel, pixel);
  }

  template <int units>
  __attribute__((noinline)) void run(int first, int tiles) const {
    constexpr int N = units * Dot::granule;
    for (int channel = channel_begin; channel < channel_end; ++channel)
      for (int t = 0; t < tiles; ++t) one<N>(window, channel, std::ptrdiff_t{first * Dot::granule + t * N} * Isa::width);
  }
};

// A window of three rows and no more columns than a product has taps has three products.
template <class Dot, template <class, int> class Windows>
JCW_INLINE void run_windows(const QuantizedWindowed& window, int block_begin, int block_end, int channel_begin, int channel_end) {
  const std::ptrdiff_t begin = std::ptrdiff_t{block_begin} * jcw::kBlock, end = std::ptrdiff_t{block_end} * jcw::kBlock;
  if (window.products == 3) return Windows<Dot, 3>{window}.run(begin, end, channel_begin, channel_end);
  Windows<Dot, 0>{window}.run(begin, end, channel_begin, channel_end);
}

template <class Dot>
void windowed_quantized(const QuantizedWindowed& window, int block_begin, int block_end, int channel_begin, int channel_end) {
  if constexpr (kLanes<Dot>) {
    run_windows<Dot, FloatWindows>(window, block_begin, block_end, channel_begin, channel_end);
  } else {
    constexpr int units = jcw::kBlock / (Dot::granule * Isa::width);
    split_tiles<Dot::units>(block_begin * units, block_end * units, TapTiles<Dot>{window, channel_begin, channel_end});
  }
}

template <class Dot>
void windowed_numbers(const QuantizedWindowed& window, int block_begin, int block_end, int channel_begin, int channel_end) {
  run_windows<Dot, NumberWindows>(window, block_begin, block_end, channel_begin, channel_end);
}

template <class Dot>
constexpr auto windowed_numbers_kernel() -> decltype(jcw::QuantizedKernels::windowed_numbers) {
  if constexpr (kLanes<Dot>) return windowed_numbers<Dot>;
  return nullptr;
}

// Depthwise convolutions with a stride of two: every other of the sums, two of which are neighbours in a lane of bytes.
template <class Dot>
struct QuantizedRows {
  using Pixel = typename Dot::pixel;
  using Weight = typename Dot::weight;
  static constexpr int N = kLanes<Dot> && Dot::inputs > 2 ? 2 : 1;

  const QuantizedWindowed& window;
  Rows rows;

  JCW_INLINE vec one_by_one(const Pixel* in, int channel) const {
    const auto* weights = static_cast<const Weight*>(window.weights) + std::ptrdiff_t{channel} * window.products * Dot::inputs;
    float sums[Isa::width];
    for (int x = 0; x < Isa::width; ++x) {
      std::int32_t sum = window.first[channel];
      for (int p = 0; p < window.products; ++p)
        for (int i = 0; i < Dot::inputs; ++i) sum += in[window.offsets[p] + 2 * x + i] * weights[p * Dot::inputs + i];
      sums[x] = static_cast<float>(sum);
    }
    return Isa::load(sums);
  }

  JCW_INLINE void values(Tile<1, N>& tile, const Pixel* in, int channel) const {
    if constexpr (kLanes<Dot>) {
      typename Dot::vec sums[N];
      PlaneSums<Dot, 0>{window}.template sum<N, 2>(channel, in, sums);
      if constexpr (N == 2)
        Isa::interleave(floats_of<Dot>(sums[0]), floats_of<Dot>(sums[1]), tile.sum[0][0], tile.sum[0][1]);
      else
        tile.sum[0][0] = floats_of<Dot>(sums[0]);
    } else {
      tile.sum[0][0] = one_by_one(in, channel);
    }
    scale(tile, window.target.scales + channel, window.target.bias + channel);
  }

  // From right to left, as in Strips. Of the last tile there may be one vector.
  JCW_INLINE void one(int channel, int row, int vectors) const {
    const Pixel* in = static_cast<const Pixel*>(window.in) + channel * window.in_plane + 2 * row * window.in_row;
    for (int at = (vectors - 1) / N * N; at >= 0; at -= N) {
      Tile<1, N> tile;
      values(tile, in + 2 * at * Isa::width, channel);
      const std::ptrdiff_t pixel = row * window.out_row + at * Isa::width;
      if (at + N <= vectors) {
        finish<1, N>(tile, window.target, channel, pixel);
      } else {
        Tile<1, 1> first{{{tile.sum[0][0]}}};
        finish<1, 1>(first, window.target, channel, pixel);
      }
    }
  }

  __attribute__((noinline)) void run(int channel_begin, int channel_end) const {
    const QuantizedWindowed known = window;  // what is stored cannot alias it
    const QuantizedRows own{known, rows};
    const int vectors = (window.width + Isa::width - 1) / Isa::width;
    for (int channel = channel_begin; channel < channel_end; ++channel) {
      end_rows(known.target, known.out_row, rows, channel, vectors * Isa::width);
      for (int row = rows.begin; row < rows.end; ++row) own.one(channel, row, vectors);
    }
  }
};

template <class Dot>
void windowed_quantized_by_two(const QuantizedWindowed& window, int row_begin, int row_end, int channel_begin, int channel_end) {
  QuantizedRows<Dot>{window, {row_begin, row_end}}.run(channel_begin, channel_end);
}

}  // namespace

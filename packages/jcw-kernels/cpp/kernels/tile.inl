// The tile: R output channels by N vectors of accumulators, and how it is finished and stored.
// Every loop over accumulators is unrolled, or the compiler keeps them in memory.
#pragma once

#include <type_traits>

#include "kernels.hpp"
#include "precision.inl"

#if defined(__clang__)
#define JCW_UNROLL _Pragma("unroll")
#else
#define JCW_UNROLL _Pragma("GCC unroll 16")
#endif
#define JCW_INLINE inline __attribute__((always_inline))

namespace {

using jcw::Activation;
using jcw::Target;
using vec = Isa::vec;
using element = Isa::element;  // what planes hold

JCW_INLINE element* elements(void* at) { return static_cast<element*>(at); }
JCW_INLINE const element* elements(const void* at) { return static_cast<const element*>(at); }

// Emulators see only the load.
JCW_INLINE void prefetch(const void* at) {
#ifdef JCW_COUNT_PREFETCHES
  asm volatile("ldrb wzr, %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at);
#endif
}

template <int R, int N>
struct Tile {
  vec sum[R][N];
};

constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a < b ? b : a; }

enum class Clamp { none, low, both };

JCW_INLINE Clamp clamp_of(Activation activation) {
  return activation == Activation::relu ? Clamp::low : activation == Activation::relu6 ? Clamp::both : Clamp::none;
}

JCW_INLINE bool only_clamps(Activation activation) {
  return activation == Activation::none || clamp_of(activation) != Clamp::none;
}

template <Clamp clamp>
struct Bounds {
  vec low = Isa::set(0.0f), high = Isa::set(6.0f);

  JCW_INLINE vec operator()(vec value) const {
    if constexpr (clamp != Clamp::none) value = Isa::max(low, value);
    if constexpr (clamp == Clamp::both) value = Isa::min(high, value);
    return value;
  }

  // Not held in registers, where they would push a sum out of a loop over entries.
  static JCW_INLINE Bounds anew() {
    static constexpr volatile float kLow = 0.0f, kHigh = 6.0f;
    Bounds bounds;
    if constexpr (clamp != Clamp::none) bounds.low = Isa::set(kLow);
    if constexpr (clamp == Clamp::both) bounds.high = Isa::set(kHigh);
    return bounds;
  }
};

// Keeps the compiler from working out the addresses in all planes ahead: there are not enough registers for them.
template <class T>
JCW_INLINE void to_next_plane(T*& at, std::ptrdiff_t plane) {
  at += plane;
  asm("" : "+r"(at));
}

// Vectors of intrinsics may alias anything, so a mask that is loaded within the rows is loaded for each.
template <Clamp clamp, int R, int N>
JCW_INLINE void store(const Tile<R, N>& tile, element* out, std::ptrdiff_t plane, const std::uint32_t* mask, int rows,
                      const Bounds<clamp>& bounded = {}) {
  const auto put = [&](int r, int n, auto kept) {
    Isa::store(out + n * Isa::width, Isa::keep(bounded(tile.sum[r][n]), kept));
  };
  if constexpr (R == 1) {
    JCW_UNROLL
    for (int n = 0; n < N; ++n) put(0, n, Isa::mask(mask + n * Isa::width));
  } else {
    decltype(Isa::mask(mask)) kept[N];
    JCW_UNROLL
    for (int n = 0; n < N; ++n) kept[n] = Isa::mask(mask + n * Isa::width);
    JCW_UNROLL
    for (int r = 0; r < R; ++r, to_next_plane(out, plane)) {
      if (r >= rows) break;
      JCW_UNROLL
      for (int n = 0; n < N; ++n) put(r, n, kept[n]);
    }
  }
}

template <int R, int N>
JCW_INLINE void add(Tile<R, N>& tile, const element* in, std::ptrdiff_t plane, int rows) {
  JCW_UNROLL
  for (int r = 0; r < R; ++r, to_next_plane(in, plane)) {
    if (r >= rows) break;
    JCW_UNROLL
    for (int n = 0; n < N; ++n) tile.sum[r][n] = tile.sum[r][n] + Isa::load(in + n * Isa::width);
  }
}

template <class I = Isa>
struct Rounded {
  typedef std::int32_t ints __attribute__((vector_size(sizeof(vec))));

  vec inverse, low, high;
  std::int32_t base;

  // Adding 1.5 * 2^23 rounds to whole numbers, which then are the low bits.
  JCW_INLINE explicit Rounded(const jcw::Rounding& by)
      : inverse(I::set(by.inverse)), low(I::set(by.low)), high(I::set(by.high)), base(0x4B400000 - by.zero) {}

  static JCW_INLINE vec magic() { return I::set(12582912.0f); }
  JCW_INLINE vec shifted(vec value) const { return I::min(high, I::number_or(low, value * inverse)) + magic(); }

  // What pixels hold, and `base` more.
  JCW_INLINE ints bits(vec value) const {
    const vec rounded = shifted(value);
    ints bits;
    __builtin_memcpy(&bits, &rounded, sizeof bits);
    return bits;
  }

  template <class Pixel, class To = Isa>
  JCW_INLINE void store(Pixel* out, vec value) const {
    typedef Pixel pixels __attribute__((vector_size(sizeof(Pixel) * I::width)));
    if constexpr (std::is_same_v<Pixel, float>) {
      I::store(out, shifted(value) - magic());
    } else {
      const ints all = bits(value) - base;
      if constexpr (sizeof(Pixel) == 1 && requires { To::store_bytes(out, all); }) {
        To::store_bytes(out, all);
      } else {
        const pixels few = __builtin_convertvector(all, pixels);
        __builtin_memcpy(out, &few, sizeof few);
      }
    }
  }
};

template <class Pixel, int R, int N>
JCW_INLINE void store_numbers(const Tile<R, N>& tile, const Target& to, int channel, std::ptrdiff_t pixel, int rows) {
  const Rounded rounded(to.numbers.rounding);
  Pixel* out = static_cast<Pixel*>(to.numbers.out) + channel * to.numbers.plane + pixel;
  JCW_UNROLL
  for (int r = 0; r < R; ++r, to_next_plane(out, to.numbers.plane)) {
    if (r >= rows) break;
    JCW_UNROLL
    for (int n = 0; n < N; ++n)
      rounded.store(out + n * Isa::width, Isa::keep(tile.sum[r][n], Isa::mask(to.mask + pixel + n * Isa::width)));
  }
}

template <int R, int N>
JCW_INLINE void store_numbers(const Tile<R, N>& tile, const Target& to, int channel, std::ptrdiff_t pixel, int rows) {
  switch (to.numbers.bytes) {
    case 1: return store_numbers<std::uint8_t>(tile, to, channel, pixel, rows);
    case 2: return store_numbers<std::int16_t>(tile, to, channel, pixel, rows);
    default: return store_numbers<float>(tile, to, channel, pixel, rows);
  }
}

// Sums of whole numbers to what they are worth; two roundings on every instruction set.
template <int R, int N>
JCW_INLINE void scale(Tile<R, N>& tile, const float* scales, const float* bias) {
  JCW_UNROLL
  for (int r = 0; r < R; ++r) {
    const vec by = Isa::set(scales[r]), more = Isa::set(bias[r]);
    JCW_UNROLL
    for (int n = 0; n < N; ++n) tile.sum[r][n] = tile.sum[r][n] * by + more;
  }
}

// Vectors cover [pixel, pixel + N * width). Only real channels are written, and pad columns as zero.
template <int R, int N>
JCW_INLINE void finish(Tile<R, N>& tile, const Target& to, int channel, std::ptrdiff_t pixel) {
  const std::uint32_t* mask = to.mask + pixel;
  const int rows = smaller(R, to.channels - channel);
  if (to.residual) add<R, N>(tile, elements(to.residual) + channel * to.residual_plane + pixel, to.residual_plane, rows);
  if constexpr (!kHalf)
    if (to.numbers.out) store_numbers(tile, to, channel, pixel, rows);
  if (!to.out) return;
  element* out = elements(to.out) + channel * to.out_plane + pixel;
  switch (clamp_of(to.activation)) {
    case Clamp::none: store<Clamp::none>(tile, out, to.out_plane, mask, rows); break;
    case Clamp::low: return store<Clamp::low>(tile, out, to.out_plane, mask, rows);
    case Clamp::both: return store<Clamp::both>(tile, out, to.out_plane, mask, rows);
  }
  if (!only_clamps(to.activation))
    for (int r = 0; r < rows; ++r)
      activate(out + r * to.out_plane, N, to.activation, slope_of(to.slopes, channel + r), mask);
}

// What sums of one plane begin with; those of whole numbers get their bias when they are scaled.
JCW_INLINE vec start_of(const Target& to, int channel) { return Isa::set(to.scales ? 0.0f : to.bias[channel]); }

// For sums that began so.
template <int N>
JCW_INLINE void finish_plane(Tile<1, N>& tile, const Target& to, int channel, std::ptrdiff_t pixel) {
  if constexpr (!kHalf)
    if (to.scales) scale(tile, to.scales + channel, to.bias + channel);
  finish<1, N>(tile, to, channel, pixel);
}

struct Rows {
  int begin, end;
};

// Column by column, as row by row the compiler would call memset.
template <class Pixel, class Value>
JCW_INLINE void fill_ends(Pixel* out, std::ptrdiff_t out_row, Rows rows, int column, Value value) {
  for (std::ptrdiff_t x = column; x < out_row; ++x)
    for (int row = rows.begin; row < rows.end; ++row) out[row * out_row + x] = static_cast<Pixel>(value);
}

// Zeros in a plane's rows from `column` on, where no vector comes.
__attribute__((noinline)) void end_rows(const Target& to, std::ptrdiff_t out_row, Rows rows, int channel, int column) {
  if (column >= out_row) return;
  if (to.out) fill_ends(elements(to.out) + channel * to.out_plane, out_row, rows, column, 0.0f);
  const std::int32_t zero = to.numbers.rounding.zero;
  const auto fill = [&](auto* out, auto value) { fill_ends(out + channel * to.numbers.plane, out_row, rows, column, value); };
  if (!to.numbers.out) return;
  if (to.numbers.bytes == 1) fill(static_cast<std::uint8_t*>(to.numbers.out), zero);
  if (to.numbers.bytes == 2) fill(static_cast<std::int16_t*>(to.numbers.out), zero);
  if (to.numbers.bytes == 4) fill(static_cast<float*>(to.numbers.out), 0.0f);
}

// Calls body<N>(first vector, tiles) so that [begin, end) is covered by runs of equal tiles that are as
// even as can be: 14 vectors in tiles of at most 6 become 5 + 5 + 4.
template <int N, class Body>
JCW_INLINE void call_tiles(int vectors, int first, int tiles, const Body& body) {
  if (vectors == N)
    body.template run<N>(first, tiles);
  else if constexpr (N > 1)
    call_tiles<N - 1>(vectors, first, tiles, body);
}

template <int Max, class Body>
JCW_INLINE void split_tiles(int begin, int end, const Body& body) {
  const int count = end - begin;
  if (count <= 0) return;
  const int tiles = (count + Max - 1) / Max;
  const int larger = (count + tiles - 1) / tiles;
  const int short_tiles = tiles * larger - count;
  call_tiles<Max>(larger, begin, tiles - short_tiles, body);
  if (short_tiles) call_tiles<Max>(larger - 1, begin + (tiles - short_tiles) * larger, short_tiles, body);
}

}  // namespace

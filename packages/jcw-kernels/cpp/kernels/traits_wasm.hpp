// WebAssembly SIMD: four floats per vector, in the sixteen registers of an x86 processor or the thirty-two of an ARM one.
#pragma once

#include <wasm_simd128.h>

namespace {

struct Isa {
  static constexpr const char* name = "wasm";
  static constexpr int width = 4;
  static constexpr int sparse_vectors = 2;
  static constexpr int dense_channels = 4, dense_vectors = 2;
  static constexpr int rows_vectors = 0, rows_pixels = 0;  // no such kernel
  static constexpr double rows_finish = 0;
  static constexpr int plain_vectors = 4;
  static constexpr int strip_vectors[] = {0, 2};  // of one row, at strides of one (none: measured) and two
  static constexpr bool pairs_rows = false;  // vectors are too short
  // above 1: both tiles are of one shape here
  static constexpr double dense_from = 2.0, dense_from_windowed = 2.0;
  static constexpr double strided_cache = 1e9;  // never split
  static constexpr double winograd_transform = 130, winograd_tiles = 16, winograd_cache = 32e3;
  static constexpr int weights_ahead = 512;  // there are no prefetches: the compiler drops them
  static constexpr bool prefetches_all = false;
  static constexpr bool has_masks = false;
  static constexpr bool slides_at_once = false;

  typedef float element;
  typedef float vec __attribute__((vector_size(16)));

  static vec load(const float* p) { return wasm_v128_load(p); }
  static void store(float* p, vec v) { wasm_v128_store(p, v); }
  static vec set(float x) { return wasm_f32x4_splat(x); }
#if !defined(__wasm_relaxed_simd__)  // it is not in all browsers
  static vec fma(vec a, vec b, vec c) { return a * b + c; }
#elif defined(JCW_DRAFT_OF_RELAXED_SIMD)  // cmake/relaxed_opcodes.py makes the final instruction of it
  static vec fma(vec a, vec b, vec c) { return __builtin_wasm_fma_f32x4(a, b, c); }
#else
  static vec fma(vec a, vec b, vec c) { return wasm_f32x4_relaxed_madd(a, b, c); }
#endif
  // One instruction each on x86, where those that spread NaN take several.
  static vec max(vec bound, vec x) { return wasm_f32x4_pmax(x, bound); }  // NaN in x passes
  static vec min(vec bound, vec x) { return wasm_f32x4_pmin(x, bound); }
  static vec largest(vec a, vec b) { return wasm_f32x4_max(a, b); }  // NaN in either passes
  static v128_t mask(const std::uint32_t* p) { return wasm_v128_load(p); }
  static vec keep(vec v, v128_t mask) { return wasm_v128_and(v, mask); }
  // Even and odd elements of 2 * width floats.
  static void load_pair(const float* p, vec& even, vec& odd) {
    const vec a = load(p), b = load(p + width);
    even = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6);
    odd = wasm_i32x4_shuffle(a, b, 1, 3, 5, 7);
  }
  // The inverse of load_pair: low and high hold even and odd by turns.
  static void interleave(vec even, vec odd, vec& low, vec& high) {
    low = wasm_i32x4_shuffle(even, odd, 0, 4, 1, 5);
    high = wasm_i32x4_shuffle(even, odd, 2, 6, 3, 7);
  }
  // The vector that begins k lanes into a and goes on in b.
  template <int k>
  static vec slide(vec a, vec b) {
    return wasm_i32x4_shuffle(a, b, k, k + 1, k + 2, k + 3);
  }
  template <int channel>
  static vec fma_weight(vec x, const float* weights, vec sum) {
    return fma(x, wasm_v128_load32_splat(weights + channel), sum);
  }

  static vec number_or(vec bound, vec x) { return wasm_f32x4_pmax(bound, x); }  // the larger; the bound for NaN

  // Pairs of 16 bits.
  struct Dot {
    static constexpr const char* name = "wasm";
    typedef std::int16_t pixel;
    typedef std::int16_t weight;
    static constexpr int inputs = 2, offset = 0;
    static constexpr int taps = 2;
    static constexpr int granule = 2, units = 1;
    typedef v128_t vec;

    static vec set(int x) { return wasm_i32x4_splat(x); }
    template <int N>
    static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
      for (int n = 0; n < N; n += 2) {
        const vec a = wasm_v128_load(rows[0] + 4 * n), b = wasm_v128_load(rows[1] + 4 * n);
        x[n] = wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        x[n + 1] = wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      }
    }
    static vec add_all(vec x, vec weights, vec sum) { return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(x, weights)); }
    template <int channel>
    static vec add(vec x, const weight* weights, vec sum) {
      return add_all(x, wasm_v128_load32_splat(weights + 2 * channel), sum);
    }
    template <int N>
    static void to_floats(const vec (&sums)[N], Isa::vec (&values)[N]) {
      for (int n = 0; n < N; ++n) values[n] = wasm_f32x4_convert_i32x4(sums[n]);
    }
  };
};

}  // namespace

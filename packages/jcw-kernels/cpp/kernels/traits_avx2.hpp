// AVX2 with FMA: eight floats per vector, sixteen registers.
#pragma once

#include <immintrin.h>

namespace {

struct Isa {
  static constexpr const char* name = "avx2";
  static constexpr int width = 8;
  static constexpr int sparse_vectors = 3;
  static constexpr int dense_channels = 4, dense_vectors = 3;
  static constexpr int rows_vectors = 0, rows_pixels = 0;  // no such kernel
  static constexpr double rows_finish = 0;
  static constexpr int plain_vectors = 8;
  static constexpr int strip_vectors[] = {0, 4};  // of one row, at strides of one (none: measured) and two
  static constexpr bool pairs_rows = false;  // vectors are too short
  // above 1: both tiles are of one shape here
  static constexpr double dense_from = 2.0, dense_from_windowed = 2.0;
  static constexpr double strided_cache = 1e9;  // never split
  static constexpr double winograd_transform = 165, winograd_tiles = 18, winograd_cache = 32e3;
  static constexpr int weights_ahead = 512;
  static constexpr bool prefetches_all = false;  // the processor does what is read in order
  static constexpr bool has_masks = false;
  static constexpr bool slides_at_once = false;

  typedef float element;
  typedef __m256 vec;

  static vec load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, vec v) { _mm256_storeu_ps(p, v); }
  static vec set(float x) { return _mm256_set1_ps(x); }
  static vec fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
  static vec max(vec bound, vec x) { return _mm256_max_ps(bound, x); }  // NaN in x passes
  static vec largest(vec a, vec b) { return _mm256_or_ps(max(a, b), max(b, a)); }  // NaN in either passes
  static vec min(vec bound, vec x) { return _mm256_min_ps(bound, x); }
  static vec mask(const std::uint32_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static vec keep(vec v, vec mask) { return _mm256_and_ps(v, mask); }
  // Even and odd elements of 2 * width floats.
  static void load_pair(const float* p, vec& even, vec& odd) {
    const vec a = load(p), b = load(p + width);
    const auto in_order = [](vec v) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xD8)); };
    even = in_order(_mm256_shuffle_ps(a, b, 0x88));
    odd = in_order(_mm256_shuffle_ps(a, b, 0xDD));
  }
  // The inverse of load_pair: low and high hold even and odd by turns.
  static void interleave(vec even, vec odd, vec& low, vec& high) {
    const vec a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
    low = _mm256_permute2f128_ps(a, b, 0x20);
    high = _mm256_permute2f128_ps(a, b, 0x31);
  }
  // The vector that begins k lanes into a and goes on in b.
  template <int k>
  static vec slide(vec a, vec b) {
    if constexpr (k == 0) return a;
    const __m256i low = _mm256_castps_si256(a), middle = _mm256_castps_si256(_mm256_permute2f128_ps(a, b, 0x21));
    if constexpr (k < width / 2) return _mm256_castsi256_ps(_mm256_alignr_epi8(middle, low, 4 * k));
    return _mm256_castsi256_ps(_mm256_alignr_epi8(_mm256_castps_si256(b), middle, 4 * k % 16));
  }
  template <int channel>
  static vec fma_weight(vec x, const float* weights, vec sum) {
    return fma(x, _mm256_broadcast_ss(weights + channel), sum);
  }

  // Whole numbers of 0 to 255 as bytes; gcc 12 takes a vector apart to convert it.
  template <class Ints>
  static void store_bytes(void* p, Ints numbers) {
    const __m256i all = reinterpret_cast<__m256i>(numbers);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
  }

  static vec number_or(vec bound, vec x) { return _mm256_max_ps(x, bound); }  // the larger; the bound for NaN

  // Sums of whole numbers. As __m256i they would have elements of 64 bits, and GCC copies what it has to see by turns as these and
  // as those: all sums of a loop, twice in every round.
  typedef int ints __attribute__((vector_size(32)));

  // Masks of sixteen pixels in 16 bits each, and numbers of 16 bits of as many, `zero` where a pixel is not kept. The first of
  // two vectors has pixels 0 to 3 and 8 to 11, as unpacking leaves them.
  static __m256i kept_words(const std::uint32_t* mask) {
    const auto* const words = reinterpret_cast<const __m256i*>(mask);
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)), 0xD8);
  }
  static __m256i words_or(int zero, const ints (&numbers)[2], __m256i kept) {
    const __m256i words = _mm256_packs_epi32((__m256i)numbers[0], (__m256i)numbers[1]);
    return _mm256_blendv_epi8(_mm256_set1_epi16(static_cast<short>(zero)), words, kept);
  }

  // Pairs of 16 bits: sums of two products of bytes do not fit in as many.
  struct Dot {
    static constexpr const char* name = "avx2";
    typedef std::int16_t pixel;
    typedef std::int16_t weight;
    static constexpr int inputs = 2, offset = 0;
    static constexpr int taps = 2;
    static constexpr int granule = 2, units = 1;
    typedef ints vec;

    static vec set(int x) { return (vec)_mm256_set1_epi32(x); }
    // In the first of two vectors lie pixels 0 to 3 and 8 to 11, in the second the others of sixteen.
    template <int N>
    static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
      for (int n = 0; n < N; n += 2) {
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[0] + 8 * n));
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[1] + 8 * n));
        x[n] = (vec)_mm256_unpacklo_epi16(a, b);
        x[n + 1] = (vec)_mm256_unpackhi_epi16(a, b);
      }
    }
    static vec widened(const std::int8_t* at) { return (vec)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))); }
    static vec add_all(vec x, vec weights, vec sum) { return sum + (vec)_mm256_madd_epi16((__m256i)x, (__m256i)weights); }
    template <int channel>
    static vec add(vec x, const weight* weights, vec sum) {
      std::int32_t pair;
      __builtin_memcpy(&pair, weights + 2 * channel, sizeof pair);
      return add_all(x, set(pair), sum);
    }
    static Isa::vec floats(vec sums) { return _mm256_cvtepi32_ps((__m256i)sums); }
    static __m256i kept(const std::uint32_t* mask) { return kept_words(mask); }
    static void store(pixel* out, const vec (&numbers)[2], __m256i kept, int zero) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), words_or(zero, numbers, kept));
    }
    template <int N>
    static void to_floats(const vec (&sums)[N], Isa::vec (&values)[N]) {
      for (int n = 0; n < N; n += 2) {
        const __m256i a = (__m256i)sums[n], b = (__m256i)sums[n + 1];
        values[n] = _mm256_cvtepi32_ps(_mm256_permute2x128_si256(a, b, 0x20));
        values[n + 1] = _mm256_cvtepi32_ps(_mm256_permute2x128_si256(a, b, 0x31));
      }
    }
  };
};

}  // namespace

// AVX-512: sixteen floats per vector, thirty-two registers.
#pragma once

#include <immintrin.h>

namespace {

struct Avx512 {
  static constexpr const char* name = "avx512";
  static constexpr int width = 16;
  static constexpr int sparse_vectors = 6;
  static constexpr int dense_channels = 8, dense_vectors = 3;
  static constexpr int rows_vectors = 2, rows_pixels = 14;
  static constexpr double rows_finish = 180;
  static constexpr int plain_vectors = 8;
  static constexpr int strip_vectors[] = {4, 4};  // of one row, at strides of one and two
  static constexpr bool pairs_rows = true;  // where a vector holds two of a stride of two
  static constexpr double dense_from = 0.9, dense_from_windowed = 0.98;
  static constexpr double strided_cache = 1e9;  // never split
  static constexpr double winograd_transform = 270, winograd_tiles = 24, winograd_cache = 32e3;
  static constexpr int weights_ahead = 512;
  static constexpr bool prefetches_all = false;  // the processor does what is read in order
  static constexpr bool has_masks = true;
  static constexpr bool slides_at_once = true;

  typedef float element;
  typedef __m512 vec;

  static vec load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, vec v) { _mm512_storeu_ps(p, v); }
  static vec set(float x) { return _mm512_set1_ps(x); }
  // From memory into a register: as an operand of each multiplication it would be loaded as often.
  static vec load_one(const float* p) {
    vec v = _mm512_set1_ps(*p);
    asm("" : "+v"(v));
    return v;
  }
  static vec fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
  static vec max(vec bound, vec x) { return _mm512_max_ps(bound, x); }  // NaN in x passes
  // NaN in either passes.
  static vec largest(vec a, vec b) { return _mm512_mask_max_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b); }
  static vec min(vec bound, vec x) { return _mm512_min_ps(bound, x); }
  static vec mask(const std::uint32_t* p) { return _mm512_loadu_ps(p); }
  static vec keep(vec v, vec mask) { return _mm512_and_ps(v, mask); }
  // Even and odd elements of 2 * width floats.
  static void load_pair(const float* p, vec& even, vec& odd) { separate(load(p), load(p + width), even, odd); }
  static void separate(vec a, vec b, vec& even, vec& odd) {
    // Keeps gcc from loading both twice, as operands of both permutations: loads across cache lines are slow.
    asm("" : "+v"(a), "+v"(b));
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    even = _mm512_permutex2var_ps(a, evens, b);
    odd = _mm512_permutex2var_ps(a, odds, b);
  }
  // The inverse of load_pair: low and high hold even and odd by turns.
  static void interleave(vec even, vec odd, vec& low, vec& high) {
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    low = _mm512_permutex2var_ps(even, first, odd);
    high = _mm512_permutex2var_ps(even, second, odd);
  }
  // The first n lanes; all from width on.
  static __mmask16 first(int n) { return static_cast<__mmask16>(n >= 16 ? 0xFFFF : n > 0 ? (1 << n) - 1 : 0); }
  // Writes the first `count` of at most width floats.
  static void store_first(float* out, int count, vec v) { _mm512_mask_storeu_ps(out, first(count), v); }
  // rows[i][n] = in[n * step + i] for n below `count`, 8 or 16.
  template <int count>
  static void transpose(const float* in, std::ptrdiff_t step, vec (&rows)[16]) {
    vec quads[16];  // [n / 4][i % 4], whose parts hold i / 4
    for (int q = 0; q < count / 4; ++q, in += 4 * step) {
      const vec a = load(in), b = load(in + step), c = load(in + 2 * step), d = load(in + 3 * step);
      const __m512d ab[2] = {_mm512_castps_pd(_mm512_unpacklo_ps(a, b)), _mm512_castps_pd(_mm512_unpackhi_ps(a, b))};
      const __m512d cd[2] = {_mm512_castps_pd(_mm512_unpacklo_ps(c, d)), _mm512_castps_pd(_mm512_unpackhi_ps(c, d))};
      for (int i = 0; i < 2; ++i) {
        quads[4 * q + 2 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab[i], cd[i]));
        quads[4 * q + 2 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab[i], cd[i]));
      }
    }
    for (int i = 0; i < 4; ++i) {
      const vec* from = quads + i;
      const vec a = _mm512_shuffle_f32x4(from[0], from[4], 0x44), b = _mm512_shuffle_f32x4(from[0], from[4], 0xEE);
      const vec c = count == 8 ? a : _mm512_shuffle_f32x4(from[8], from[12], 0x44);
      const vec d = count == 8 ? b : _mm512_shuffle_f32x4(from[8], from[12], 0xEE);
      rows[i] = _mm512_shuffle_f32x4(a, c, 0x88);
      rows[4 + i] = _mm512_shuffle_f32x4(a, c, 0xDD);
      rows[8 + i] = _mm512_shuffle_f32x4(b, d, 0x88);
      rows[12 + i] = _mm512_shuffle_f32x4(b, d, 0xDD);
    }
  }
  // Writes the first `count` of 2 * width floats.
  static void store_part(float* out, int count, vec low, vec high) {
    _mm512_mask_storeu_ps(out, first(count), low);
    _mm512_mask_storeu_ps(out + 16, first(count - 16), high);
  }
  // The vector that begins k lanes into a and goes on in b.
  template <int k>
  static vec slide(vec a, vec b) {
    if constexpr (k == 0) return a;
    return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(b), _mm512_castps_si512(a), k));
  }
  template <int channel>
  static vec fma_weight(vec x, const float* weights, vec sum) {
    return fma(x, _mm512_set1_ps(weights[channel]), sum);
  }

  static vec number_or(vec bound, vec x) { return _mm512_max_ps(x, bound); }  // the larger; the bound for NaN

  // Sums of whole numbers. As __m512i they would have elements of 64 bits, and GCC copies what it has to see by turns as these and
  // as those: all sums of a loop, twice in every round.
  typedef int ints __attribute__((vector_size(64)));

  // For processors without VNNI: pairs of 16 bits.
  struct Dot {
    static constexpr const char* name = "avx512";
    typedef std::uint8_t pixel;
    typedef std::int16_t weight;
    static constexpr int inputs = 2, offset = 0;
    static constexpr int taps = 2;
    static constexpr int granule = 1, units = 4;
    typedef ints vec;

    static vec set(int x) { return (vec)_mm512_set1_epi32(x); }
    template <int N>
    static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
      const auto wide = [](const pixel* at) {
        return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
      };
      for (int n = 0; n < N; ++n)
        x[n] = (vec)_mm512_or_si512(wide(rows[0] + 16 * n), _mm512_slli_epi32(wide(rows[1] + 16 * n), 16));
    }
    static vec widened(const std::int8_t* at) { return (vec)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))); }
    static vec widened(const pixel* at) { return (vec)_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))); }
    static vec add_all(vec x, vec weights, vec sum) { return sum + (vec)_mm512_madd_epi16((__m512i)x, (__m512i)weights); }
    template <int channel>
    static vec add(vec x, const weight* weights, vec sum) {
      std::int32_t pair;
      __builtin_memcpy(&pair, weights + 2 * channel, sizeof pair);
      return add_all(x, set(pair), sum);
    }
    template <int N>
    static void to_floats(const vec (&sums)[N], Avx512::vec (&values)[N]) {
      for (int n = 0; n < N; ++n) values[n] = _mm512_cvtepi32_ps((__m512i)sums[n]);
    }
  };
};

}  // namespace

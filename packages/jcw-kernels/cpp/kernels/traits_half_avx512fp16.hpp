// Half precision by AVX-512's extension FP16: thirty-two numbers per vector. What is not said here is as for floats.
#pragma once

#include "traits_avx512.hpp"

namespace {

struct HalfAvx512 : Avx512 {
  static constexpr const char* name = "avx512-fp16";
  using Floats = Avx512;
  static constexpr int width = 32;
  static constexpr int rows_vectors = 0, rows_pixels = 0;  // no such kernel

  typedef _Float16 element;
  typedef __m512h vec;

  static vec load(const element* p) { return _mm512_loadu_ph(p); }
  static void store(element* p, vec v) { _mm512_storeu_ph(p, v); }
  static vec set(float x) { return _mm512_set1_ph(static_cast<element>(x)); }
  static vec fma(vec a, vec b, vec c) { return _mm512_fmadd_ph(a, b, c); }
  static vec max(vec bound, vec x) { return _mm512_max_ph(bound, x); }  // NaN in x passes
  // NaN in either passes.
  static vec largest(vec a, vec b) { return _mm512_mask_max_ph(a, _mm512_cmp_ph_mask(a, a, _CMP_ORD_Q), a, b); }
  static vec min(vec bound, vec x) { return _mm512_min_ph(bound, x); }
  static __mmask32 mask(const std::uint32_t* p) {
    const __m512i low = _mm512_loadu_si512(p), high = _mm512_loadu_si512(p + 16);
    return _mm512_kunpackw(_mm512_test_epi32_mask(high, high), _mm512_test_epi32_mask(low, low));
  }
  static vec keep(vec v, __mmask32 mask) { return of(_mm512_maskz_mov_epi16(mask, bits(v))); }
  // Even and odd elements of 2 * width.
  static void load_pair(const element* p, vec& even, vec& odd) { separate(load(p), load(p + width), even, odd); }
  static void separate(vec a, vec b, vec& even, vec& odd) {
    even = of(_mm512_permutex2var_epi16(bits(a), every_second(0), bits(b)));
    odd = of(_mm512_permutex2var_epi16(bits(a), every_second(1), bits(b)));
  }
  // The vector that begins k lanes into a and goes on in b.
  template <int k>
  static vec slide(vec a, vec b) {
    const __m512i low = _mm512_alignr_epi32(bits(b), bits(a), k / 2);
    if constexpr (k % 2 == 0) return of(low);
    return of(_mm512_shrdi_epi32(low, _mm512_alignr_epi32(bits(b), bits(a), k / 2 + 1), 16));
  }
  template <int channel>
  static vec fma_weight(vec x, const element* weights, vec sum) {
    return fma(x, _mm512_set1_ph(weights[channel]), sum);
  }

  static Avx512::vec load_floats(const element* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void widen(vec x, Avx512::vec (&floats)[2]) {
    floats[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(bits(x)));
    floats[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits(x), 1));
  }
  static vec narrow(const Avx512::vec (&floats)[2]) {
    const __m256i low = _mm512_cvtps_ph(floats[0], _MM_FROUND_TO_NEAREST_INT), high = _mm512_cvtps_ph(floats[1], _MM_FROUND_TO_NEAREST_INT);
    return of(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }

 private:
  static __m512i bits(vec v) { return _mm512_castph_si512(v); }
  static vec of(__m512i bits) { return _mm512_castsi512_ph(bits); }
  // The places of every second element of two vectors.
  static __m512i every_second(int first) {
    const __m512i pairs = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i even = _mm512_slli_epi32(pairs, 2), odd = _mm512_add_epi32(even, _mm512_set1_epi32(2));
    return _mm512_add_epi16(_mm512_or_si512(even, _mm512_slli_epi32(odd, 16)), _mm512_set1_epi16(static_cast<short>(first)));
  }
};

}  // namespace

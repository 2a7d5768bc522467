// Convolution of whole numbers by AVX-512's dot products of bytes.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_avx512.hpp"

namespace {
using Isa = Avx512;
}

// The traits come first: everything below is written in terms of Isa.
#include "activation.inl"
#include "quantized_table.inl"

namespace {

struct Bytes {
  static constexpr const char* name = "avx512vnni";
  typedef std::uint8_t pixel;
  typedef std::int8_t weight;
  static constexpr int inputs = 4, offset = 0;
  static constexpr int taps = 1;
  static constexpr int granule = 1, units = 4;
  typedef Isa::ints vec;

  static vec set(int x) { return (vec)_mm512_set1_epi32(x); }
  // Unpacking leaves four adjacent pixels in each quarter of a vector, those of quarter l of vector n from 16 l + 4 n on. Where
  // there are fewer than four vectors, each row is first taken four pixels at a time to where that leaves them in order.
  template <int N>
  static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i row[inputs];
    for (int i = 0; i < inputs; ++i) {
      row[i] = _mm512_loadu_si512(rows[i]);
      if constexpr (N < 4) row[i] = _mm512_permutexvar_epi32(order, row[i]);
    }
    const __m512i ab[2] = {_mm512_unpacklo_epi8(row[0], row[1]), _mm512_unpackhi_epi8(row[0], row[1])};
    const __m512i cd[2] = {_mm512_unpacklo_epi8(row[2], row[3]), _mm512_unpackhi_epi8(row[2], row[3])};
    JCW_UNROLL
    for (int n = 0; n < N; ++n)
      x[n] = (vec)(n % 2 ? _mm512_unpackhi_epi16(ab[n / 2], cd[n / 2]) : _mm512_unpacklo_epi16(ab[n / 2], cd[n / 2]));
  }
  static vec add_all(vec x, vec weights, vec sum) {
    return (vec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)weights);
  }
  template <int channel>
  static vec add(vec x, const weight* weights, vec sum) {
    std::int32_t four;
    __builtin_memcpy(&four, weights + 4 * channel, sizeof four);
    return add_all(x, set(four), sum);
  }
  static Isa::vec floats(vec sums) { return _mm512_cvtepi32_ps((__m512i)sums); }
  static __mmask64 kept(const std::uint32_t* mask) {
    __mmask64 all = 0;
    for (int n = 0; n < 4; ++n) {
      const __m512i words = _mm512_loadu_si512(mask + 16 * n);
      all |= static_cast<__mmask64>(_mm512_test_epi32_mask(words, words)) << (16 * n);
    }
    return all;
  }
  // Packing undoes what unpacking did to the order of pixels.
  static void store(pixel* out, const vec (&numbers)[4], __mmask64 kept, int zero) {
    const __m512i low = _mm512_packus_epi32((__m512i)numbers[0], (__m512i)numbers[1]);
    const __m512i high = _mm512_packus_epi32((__m512i)numbers[2], (__m512i)numbers[3]);
    const __m512i pads = _mm512_set1_epi8(static_cast<char>(zero));
    _mm512_storeu_si512(out, _mm512_mask_packus_epi16(pads, kept, low, high));
  }
  template <int N>
  static void to_floats(const vec (&sums)[N], Isa::vec (&values)[N]) {
    __m512i ordered[N];
    for (int n = 0; n < N; ++n) ordered[n] = (__m512i)sums[n];
    if constexpr (N == 4) {
      const __m512i a = _mm512_shuffle_i32x4(ordered[0], ordered[1], 0x44), b = _mm512_shuffle_i32x4(ordered[2], ordered[3], 0x44);
      const __m512i c = _mm512_shuffle_i32x4(ordered[0], ordered[1], 0xEE), d = _mm512_shuffle_i32x4(ordered[2], ordered[3], 0xEE);
      ordered[0] = _mm512_shuffle_i32x4(a, b, 0x88);
      ordered[1] = _mm512_shuffle_i32x4(a, b, 0xDD);
      ordered[2] = _mm512_shuffle_i32x4(c, d, 0x88);
      ordered[3] = _mm512_shuffle_i32x4(c, d, 0xDD);
    }
    for (int n = 0; n < N; ++n) values[n] = _mm512_cvtepi32_ps(ordered[n]);
  }
};

}  // namespace

extern "C" const jcw::QuantizedKernels* jcw_quantized_avx512vnni() { return &kQuantized<Bytes>; }

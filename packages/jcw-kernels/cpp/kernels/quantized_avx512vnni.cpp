// Convolution of whole numbers by AVX-512's dot products of bytes.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_avx512.hpp"
// The traits come first: everything below is written in terms of Isa.
#include "activation.inl"
#include "quantized.inl"

namespace {

struct Bytes {
  static constexpr const char* name = "avx512vnni";
  typedef std::uint8_t pixel;
  typedef std::int8_t weight;
  static constexpr int inputs = 4, offset = 0;
  static constexpr int taps = 1;
  static constexpr int granule = 1, units = 4;
  typedef __m512i vec;

  static vec set(int x) { return _mm512_set1_epi32(x); }
  // Each row is taken four pixels at a time to where unpacking leaves them in order: vector n holds pixels 16 n to 16 n + 15.
  template <int N>
  static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
    const vec order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    vec row[inputs];
    for (int i = 0; i < inputs; ++i) row[i] = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(rows[i]));
    const vec ab[2] = {_mm512_unpacklo_epi8(row[0], row[1]), _mm512_unpackhi_epi8(row[0], row[1])};
    const vec cd[2] = {_mm512_unpacklo_epi8(row[2], row[3]), _mm512_unpackhi_epi8(row[2], row[3])};
    JCW_UNROLL
    for (int n = 0; n < N; ++n)
      x[n] = n % 2 ? _mm512_unpackhi_epi16(ab[n / 2], cd[n / 2]) : _mm512_unpacklo_epi16(ab[n / 2], cd[n / 2]);
  }
  template <int channel>
  static vec add(vec x, const weight* weights, vec sum) {
    std::int32_t four;
    __builtin_memcpy(&four, weights + 4 * channel, sizeof four);
    return _mm512_dpbusd_epi32(sum, x, _mm512_set1_epi32(four));
  }
  template <int N>
  static void to_floats(const vec (&sums)[N], Isa::vec (&values)[N]) {
    for (int n = 0; n < N; ++n) values[n] = _mm512_cvtepi32_ps(sums[n]);
  }
};

}  // namespace

extern "C" const jcw::QuantizedKernels* jcw_quantized_avx512vnni() { return &kQuantized<Bytes>; }

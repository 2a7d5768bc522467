// Convolution of whole numbers by AVX's dot products of bytes, of processors without AVX-512 that are new enough.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_avx2.hpp"
// The traits come first: everything below is written in terms of Isa.
#include "activation.inl"
#include "quantized_table.inl"

namespace {

struct Bytes {
  static constexpr const char* name = "avxvnni";
  typedef std::uint8_t pixel;
  typedef std::int8_t weight;
  static constexpr int inputs = 4, offset = 0;
  static constexpr int taps = 1;
  static constexpr int granule = 2, units = 1;
  typedef Isa::ints vec;

  static vec set(int x) { return (vec)_mm256_set1_epi32(x); }
  // Sixteen pixels of a row, eight in either half, so that of two vectors the first gets pixels 0 to 3 and 8 to 11.
  static __m256i row(const pixel* at) {
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_permute4x64_epi64(_mm256_castsi128_si256(all), 0x10);
  }
  template <int N>
  static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
    const __m256i ab = _mm256_unpacklo_epi8(row(rows[0]), row(rows[1])), cd = _mm256_unpacklo_epi8(row(rows[2]), row(rows[3]));
    x[0] = (vec)_mm256_unpacklo_epi16(ab, cd);
    x[1] = (vec)_mm256_unpackhi_epi16(ab, cd);
  }
  static vec add_all(vec x, vec weights, vec sum) {
    return (vec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)weights);
  }
  template <int channel>
  static vec add(vec x, const weight* weights, vec sum) {
    std::int32_t four;
    __builtin_memcpy(&four, weights + 4 * channel, sizeof four);
    return add_all(x, set(four), sum);
  }
  static Isa::vec floats(vec sums) { return _mm256_cvtepi32_ps((__m256i)sums); }
  static __m256i kept(const std::uint32_t* mask) { return Isa::kept_words(mask); }
  // Packing undoes what unpacking did to the order of pixels.
  static void store(pixel* out, const vec (&numbers)[2], __m256i kept, int zero) {
    const __m256i words = Isa::words_or(zero, numbers, kept);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
  }
  template <int N>
  static void to_floats(const vec (&sums)[N], Isa::vec (&values)[N]) {
    const __m256i a = (__m256i)sums[0], b = (__m256i)sums[1];
    values[0] = _mm256_cvtepi32_ps(_mm256_permute2x128_si256(a, b, 0x20));
    values[1] = _mm256_cvtepi32_ps(_mm256_permute2x128_si256(a, b, 0x31));
  }
};

}  // namespace

extern "C" const jcw::QuantizedKernels* jcw_quantized_avxvnni() { return &kQuantized<Bytes>; }

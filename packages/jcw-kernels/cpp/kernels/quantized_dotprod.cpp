// Convolution of whole numbers by ARM's dot products of bytes, an extension from ARMv8.2 on.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_neon.hpp"

namespace {
using Isa = Neon;
}

// The traits come first: everything below is written in terms of Isa.
#include "activation.inl"
#include "quantized_table.inl"

namespace {

struct Bytes {
  static constexpr const char* name = "dotprod";
  typedef std::int8_t pixel;
  typedef std::int8_t weight;
  static constexpr int inputs = 4, offset = 128;
  static constexpr int taps = 1;
  static constexpr int granule = 4, units = 1;
  typedef int32x4_t vec;

  static vec set(int x) { return vdupq_n_s32(x); }
  template <int N>
  static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
    int8x16_t row[inputs];
    for (int i = 0; i < inputs; ++i) row[i] = vld1q_s8(rows[i]);
    const int8x16x2_t ab = vzipq_s8(row[0], row[1]), cd = vzipq_s8(row[2], row[3]);
    for (int i = 0; i < 2; ++i) {
      const int16x8x2_t four = vzipq_s16(vreinterpretq_s16_s8(ab.val[i]), vreinterpretq_s16_s8(cd.val[i]));
      x[2 * i] = vreinterpretq_s32_s16(four.val[0]);
      x[2 * i + 1] = vreinterpretq_s32_s16(four.val[1]);
    }
  }
  static vec add_all(vec x, vec weights, vec sum) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(weights));
  }
  template <int channel>
  static vec add(vec x, const weight* weights, vec sum) {
    return vdotq_laneq_s32(sum, vreinterpretq_s8_s32(x), vld1q_s8(weights), channel);
  }
  template <int N>
  static void to_floats(const vec (&sums)[N], Isa::vec (&values)[N]) {
    for (int n = 0; n < N; ++n) values[n] = vcvtq_f32_s32(sums[n]);
  }
};

}  // namespace

extern "C" const jcw::QuantizedKernels* jcw_quantized_dotprod() { return &kQuantized<Bytes>; }

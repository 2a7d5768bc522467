// Half precision by ARM's extension FP16: eight numbers per vector. What is not said here is as for floats.
#pragma once

#include "traits_neon.hpp"

namespace {

struct HalfNeon : Neon {
  static constexpr const char* name = "neon-fp16";
  using Floats = Neon;
  static constexpr int width = 8;

  typedef float16_t element;
  typedef float16x8_t vec;

  static vec load(const element* p) { return vld1q_f16(p); }
  static void store(element* p, vec v) { vst1q_f16(p, v); }
  static vec set(float x) { return vdupq_n_f16(static_cast<element>(x)); }
  static vec fma(vec a, vec b, vec c) { return vfmaq_f16(c, a, b); }
  static vec max(vec bound, vec x) { return vmaxq_f16(bound, x); }
  static vec largest(vec a, vec b) { return max(a, b); }  // NaN in either passes
  static vec min(vec bound, vec x) { return vminq_f16(bound, x); }
  static uint16x8_t mask(const std::uint32_t* p) {
    return vcombine_u16(vmovn_u32(vld1q_u32(p)), vmovn_u32(vld1q_u32(p + 4)));
  }
  static vec keep(vec v, uint16x8_t mask) { return vreinterpretq_f16_u16(vandq_u16(vreinterpretq_u16_f16(v), mask)); }
  // Even and odd elements of 2 * width.
  static void load_pair(const element* p, vec& even, vec& odd) {
    const float16x8x2_t pair = vld2q_f16(p);
    even = pair.val[0];
    odd = pair.val[1];
  }
  // The vector that begins k lanes into a and goes on in b.
  template <int k>
  static vec slide(vec a, vec b) {
    return k < width ? vextq_f16(a, b, k % width) : b;
  }
  // gcc would load or spread each weight alone. Lanes are of the first sixteen registers.
  template <int channel>
  static vec fma_weight(vec x, const element* weights, vec sum) {
    const float16x4_t four = vld1_f16(weights + channel / 4 * 4);
    asm("fmla %0.8h, %1.8h, %2.h[%3]" : "+w"(sum) : "w"(x), "x"(four), "i"(channel % 4));
    return sum;
  }

  static Neon::vec load_floats(const element* p) { return vcvt_f32_f16(vld1_f16(p)); }
  static void widen(vec x, Neon::vec (&floats)[2]) {
    floats[0] = vcvt_f32_f16(vget_low_f16(x));
    floats[1] = vcvt_high_f32_f16(x);
  }
  static vec narrow(const Neon::vec (&floats)[2]) { return vcvt_high_f16_f32(vcvt_f16_f32(floats[0]), floats[1]); }
};

}  // namespace

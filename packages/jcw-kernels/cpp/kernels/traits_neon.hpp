// AArch64 NEON: four floats per vector, thirty-two registers, multiply by one lane of a register.
#pragma once

#include <arm_neon.h>

namespace {

struct Neon {
  static constexpr const char* name = "neon";
  static constexpr int width = 4;
  static constexpr int sparse_vectors = 6;
  static constexpr int dense_channels = 8, dense_vectors = 3;
  static constexpr int rows_vectors = 0, rows_pixels = 0;  // no such kernel
  static constexpr double rows_finish = 0;
  static constexpr int plain_vectors = 8;
  static constexpr int strip_vectors[] = {0, 4};  // of one row, at strides of one (none: modelled) and two
  static constexpr bool pairs_rows = false;  // vectors are too short
  static constexpr double dense_from = 0.9, dense_from_windowed = 0.98;
  // caches of a Cortex-A72, modelled (benchmarks/arm_model.py)
  static constexpr double strided_cache = 16e3;
  static constexpr double winograd_transform = 220, winograd_tiles = 16, winograd_cache = 8e3;
  // modelled: weights arrive in time from memory, and still are in the first cache when they are used
  static constexpr int weights_ahead = 128;
  static constexpr bool prefetches_all = true;
  static constexpr bool has_masks = false;
  static constexpr bool slides_at_once = true;

  typedef float element;
  typedef float32x4_t vec;

  static vec load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, vec v) { vst1q_f32(p, v); }
  static vec set(float x) { return vdupq_n_f32(x); }
  static vec fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
  static vec max(vec bound, vec x) { return vmaxq_f32(bound, x); }
  static vec largest(vec a, vec b) { return max(a, b); }  // NaN in either passes
  static vec min(vec bound, vec x) { return vminq_f32(bound, x); }
  static uint32x4_t mask(const std::uint32_t* p) { return vld1q_u32(p); }
  static vec keep(vec v, uint32x4_t mask) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), mask));
  }
  // Even and odd elements of 2 * width floats.
  static void load_pair(const float* p, vec& even, vec& odd) {
    const float32x4x2_t pair = vld2q_f32(p);
    even = pair.val[0];
    odd = pair.val[1];
  }
  // The inverse of load_pair: low and high hold even and odd by turns.
  static void interleave(vec even, vec odd, vec& low, vec& high) {
    low = vzip1q_f32(even, odd);
    high = vzip2q_f32(even, odd);
  }
  // The vector that begins k lanes into a and goes on in b.
  template <int k>
  static vec slide(vec a, vec b) {
    return k < width ? vextq_f32(a, b, k % width) : b;
  }
  template <int channel>
  static vec fma_weight(vec x, const float* weights, vec sum) {
    return vfmaq_laneq_f32(sum, x, vld1q_f32(weights + channel / 4 * 4), channel % 4);
  }

  // The low bytes of whole numbers; gcc 12 takes a vector apart to convert it.
  template <class Ints>
  static void store_bytes(void* p, Ints numbers) {
    const int16x4_t words = vmovn_s32(reinterpret_cast<int32x4_t>(numbers));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    const std::uint32_t four = vget_lane_u32(vreinterpret_u32_s8(bytes), 0);
    __builtin_memcpy(p, &four, sizeof four);
  }

  static vec number_or(vec bound, vec x) { return vmaxnmq_f32(x, bound); }  // the larger; the bound for NaN

  // For processors without dot products.
  struct Dot {
    static constexpr const char* name = "neon";
    typedef std::int16_t pixel;
    typedef std::int16_t weight;
    static constexpr int inputs = 1, offset = 0;
    static constexpr int taps = 2;
    static constexpr int granule = 2, units = 3;
    typedef int32x4_t vec;
    typedef int16x4_t pixels;

    static vec set(int x) { return vdupq_n_s32(x); }
    template <int N>
    static void load(const pixel* const (&rows)[inputs], int16x4_t (&x)[N]) {
      for (int n = 0; n < N; n += 2) {
        const int16x8_t both = vld1q_s16(rows[0] + 4 * n);
        x[n] = vget_low_s16(both);
        x[n + 1] = vget_high_s16(both);
      }
    }
    static vec widened(const std::int8_t* at) { return vreinterpretq_s32_s16(vmovl_s8(vld1_s8(at))); }
    static vec add_all(vec x, vec weights, vec sum) {
      const int16x8_t a = vreinterpretq_s16_s32(x), b = vreinterpretq_s16_s32(weights);
      return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(a), vget_low_s16(b)), a, b);
    }
    template <int channel>
    static vec add(int16x4_t x, const weight* weights, vec sum) {
      return vmlal_lane_s16(sum, x, vld1_s16(weights), channel);
    }
    template <int N>
    static void to_floats(const vec (&sums)[N], Neon::vec (&values)[N]) {
      for (int n = 0; n < N; ++n) values[n] = vcvtq_f32_s32(sums[n]);
    }
  };
};

}  // namespace

// Fully connected layers: a group's four outputs are one short vector, fed by one input per entry.
#pragma once

#include "tile.inl"

namespace {

using jcw::Linear;
typedef float four __attribute__((vector_size(16)));

inline four load_four(const float* p) {
  four v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Four sums run side by side to hide the latency of multiply-add.
inline four dot(const Linear& layer, int group) {
  const element* const in = elements(layer.in);
  four sum[4] = {load_four(layer.bias + group * 4), four{}, four{}, four{}};
  int e = layer.starts[group];
  const int end = layer.starts[group + 1];
  for (; e + 4 <= end; e += 4) {
    JCW_UNROLL
    for (int k = 0; k < 4; ++k) {
      const float x = static_cast<float>(in[layer.indices[e + k]]);
      sum[k] += load_four(layer.weights + std::ptrdiff_t{e + k} * 4) * four{x, x, x, x};
    }
  }
  for (; e < end; ++e) {
    const float x = static_cast<float>(in[layer.indices[e]]);
    sum[0] += load_four(layer.weights + std::ptrdiff_t{e} * 4) * four{x, x, x, x};
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

inline float activated_alone(float x, Activation activation, float slope) {
  // Comparisons that are false for NaN let it pass.
  if (clamp_of(activation) != Clamp::none && x < 0.0f) return 0.0f;
  if (clamp_of(activation) == Clamp::both && x > 6.0f) return 6.0f;
  return clamp_of(activation) == Clamp::none ? scalar_activated(x, activation, slope) : x;
}

inline void finish_four(const Linear& layer, int group, four sum) {
  for (int r = 0; r < smaller(4, layer.outputs - group * 4); ++r) {
    const int o = group * 4 + r;
    const float more = layer.residual ? static_cast<float>(elements(layer.residual)[o]) : 0.0f;
    const float value = activated_alone(sum[r] + more, layer.activation, slope_of(layer.slopes, o));
    elements(layer.out)[o] = static_cast<element>(value);
  }
}

inline void linear(const Linear& layer, int group_begin, int group_end) {
  for (int group = group_begin; group < group_end; ++group) finish_four(layer, group, dot(layer, group));
}

}  // namespace

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
  four sum[4] = {load_four(layer.bias + group * 4), four{}, four{}, four{}};
  int e = layer.starts[group];
  const int end = layer.starts[group + 1];
  for (; e + 4 <= end; e += 4) {
    JCW_UNROLL
    for (int k = 0; k < 4; ++k) {
      const float x = layer.in[layer.indices[e + k]];
      sum[k] += load_four(layer.weights + std::ptrdiff_t{e + k} * 4) * four{x, x, x, x};
    }
  }
  for (; e < end; ++e) {
    const float x = layer.in[layer.indices[e]];
    sum[0] += load_four(layer.weights + std::ptrdiff_t{e} * 4) * four{x, x, x, x};
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void linear(const Linear& layer, int group_begin, int group_end) {
  const Bounds bounds = bounds_of(layer.activation);
  for (int group = group_begin; group < group_end; ++group) {
    const four sum = dot(layer, group);
    for (int r = 0; r < smaller(4, layer.outputs - group * 4); ++r) {
      const int o = group * 4 + r;
      float value = sum[r] + (layer.residual ? layer.residual[o] : 0.0f);
      value = value < bounds.low ? bounds.low : value;
      value = value > bounds.high ? bounds.high : value;
      layer.out[o] = static_cast<int>(layer.activation) > static_cast<int>(Activation::relu6)
                         ? scalar_activated(value, layer.activation)
                         : value;
    }
  }
}

}  // namespace

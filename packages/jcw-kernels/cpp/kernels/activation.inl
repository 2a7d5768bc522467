// Activations that are more than a clamp, applied to pixels that were just stored.
#pragma once

#include "kernels.hpp"

namespace {

// e^x by 2^n * p(r), |r| <= ln(2)/2; p is the Taylor polynomial of degree 6, error below 2 ulp. NaN stays.
inline Isa::vec exponential(Isa::vec x) {
  using vec = Isa::vec;
  typedef std::uint32_t bits __attribute__((vector_size(sizeof(vec))));  // whose sums may wrap
  x = Isa::min(Isa::set(88.0f), Isa::max(Isa::set(-87.0f), x));
  const vec magic = Isa::set(12582912.0f);  // 1.5 * 2^23 rounds to whole numbers
  const vec shifted = Isa::fma(x, Isa::set(1.44269504f), magic);
  const vec n = shifted - magic;
  vec r = Isa::fma(n, Isa::set(-0.693359375f), x);
  r = Isa::fma(n, Isa::set(2.12194440e-4f), r);
  vec p = Isa::set(1.0f / 720);
  p = Isa::fma(p, r, Isa::set(1.0f / 120));
  p = Isa::fma(p, r, Isa::set(1.0f / 24));
  p = Isa::fma(p, r, Isa::set(1.0f / 6));
  p = Isa::fma(p, r, Isa::set(0.5f));
  p = Isa::fma(p, r, Isa::set(1.0f));
  p = Isa::fma(p, r, Isa::set(1.0f));
  return (vec)((bits)p + ((bits)shifted << 23)) + (x - x);
}

inline Isa::vec sigmoid(Isa::vec x) { return Isa::set(1.0f) / (Isa::set(1.0f) + exponential(-x)); }

inline Isa::vec hardsigmoid(Isa::vec x) {
  const Isa::vec inner = Isa::min(Isa::set(6.0f), Isa::max(Isa::set(0.0f), x + Isa::set(3.0f)));
  return inner * Isa::set(1.0f / 6);
}

inline Isa::vec activated(Isa::vec x, jcw::Activation activation) {
  switch (activation) {
    case jcw::Activation::hardswish: return x * hardsigmoid(x);
    case jcw::Activation::hardsigmoid: return hardsigmoid(x);
    case jcw::Activation::sigmoid: return sigmoid(x);
    case jcw::Activation::silu: return x * sigmoid(x);
    default: return x;
  }
}

inline void activate(float* pixels, int vectors, jcw::Activation activation, const std::uint32_t* mask) {
  for (int n = 0; n < vectors; ++n) {
    float* at = pixels + n * Isa::width;
    Isa::store(at, Isa::keep(activated(Isa::load(at), activation), Isa::mask(mask + n * Isa::width)));
  }
}

}  // namespace

namespace {

inline float scalar_activated(float x, jcw::Activation activation) {
  float lanes[Isa::width];
  Isa::store(lanes, activated(Isa::set(x), activation));
  return lanes[0];
}

}  // namespace

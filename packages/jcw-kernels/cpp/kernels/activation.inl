// Activations that are more than a clamp, applied to pixels that were just stored.
#pragma once

#include "kernels.hpp"
#include "precision.inl"

namespace {

// e^x by 2^n * p(r), |r| <= ln(2)/2; p is the Taylor polynomial of degree 6, error below 2 ulp. NaN stays. Beyond +-87 all are
// taken for that: e^88 has an inverse below the normal numbers, with which processors take ten times as long.
template <class I>
inline typename I::vec exponential(typename I::vec x) {
  using vec = typename I::vec;
  typedef std::uint32_t bits __attribute__((vector_size(sizeof(vec))));  // whose sums may wrap
  x = I::min(I::set(87.0f), I::max(I::set(-87.0f), x));
  const vec magic = I::set(12582912.0f);  // 1.5 * 2^23 rounds to whole numbers
  const vec shifted = I::fma(x, I::set(1.44269504f), magic);
  const vec n = shifted - magic;
  vec r = I::fma(n, I::set(-0.693359375f), x);
  r = I::fma(n, I::set(2.12194440e-4f), r);
  vec p = I::set(1.0f / 720);
  p = I::fma(p, r, I::set(1.0f / 120));
  p = I::fma(p, r, I::set(1.0f / 24));
  p = I::fma(p, r, I::set(1.0f / 6));
  p = I::fma(p, r, I::set(0.5f));
  p = I::fma(p, r, I::set(1.0f));
  p = I::fma(p, r, I::set(1.0f));
  return (vec)((bits)p + ((bits)shifted << 23)) + (x - x);
}

template <class I>
inline typename I::vec sigmoid(typename I::vec x) { return I::set(1.0f) / (I::set(1.0f) + exponential<I>(-x)); }

template <class I>
inline typename I::vec hardsigmoid(typename I::vec x) {
  using vec = typename I::vec;
  const vec inner = I::min(I::set(6.0f), I::max(I::set(0.0f), x + I::set(3.0f)));
  return inner * I::set(1.0f / 6);
}

// NaN stays.
template <class I>
inline typename I::vec leaky(typename I::vec x, float slope) {
  const typename I::vec zero = I::set(0.0f);
  return I::max(zero, x) + I::set(slope) * I::min(zero, x);
}

// `slope` is that of the channel, of activations that have one.
template <class I>
inline typename I::vec activated_floats(typename I::vec x, jcw::Activation activation, float slope) {
  switch (activation) {
    case jcw::Activation::hardswish: return x * hardsigmoid<I>(x);
    case jcw::Activation::hardsigmoid: return hardsigmoid<I>(x);
    case jcw::Activation::sigmoid: return sigmoid<I>(x);
    case jcw::Activation::silu: return x * sigmoid<I>(x);
    case jcw::Activation::leaky: return leaky<I>(x, slope);
    default: return x;
  }
}

inline float slope_of(const float* slopes, int channel) { return slopes ? slopes[channel] : 0.0f; }

inline Isa::vec activated(Isa::vec x, jcw::Activation activation, float slope) {
  Wide<Isa> wide = widened<Isa>(x);
  for (Floats::vec& part : wide.part) part = activated_floats<Floats>(part, activation, slope);
  return narrowed<Isa>(wide);
}

inline void activate(Isa::element* pixels, int vectors, jcw::Activation activation, float slope, const std::uint32_t* mask) {
  for (int n = 0; n < vectors; ++n) {
    Isa::element* at = pixels + n * Isa::width;
    Isa::store(at, Isa::keep(activated(Isa::load(at), activation, slope), Isa::mask(mask + n * Isa::width)));
  }
}

}  // namespace

namespace {

inline float scalar_activated(float x, jcw::Activation activation, float slope) {
  float lanes[Floats::width];
  Floats::store(lanes, activated_floats<Floats>(Floats::set(x), activation, slope));
  return lanes[0];
}

}  // namespace

// Half precision for every processor, slowly: floats that are rounded after each operation to numbers that IEEE 754 binary16
// has. What is not said here is as for floats.
#pragma once

#include "traits_scalar.hpp"

namespace {

struct HalfScalar : Scalar {
  static constexpr const char* name = "scalar-fp16";
  using Floats = Scalar;

  struct element {
    std::uint16_t bits;

    element() = default;
    explicit element(float x) : element(HalfScalar::element_of(x)) {}
    explicit operator float() const { return HalfScalar::float_of(*this); }
  };

  // Floats that half precision has.
  struct vec {
    Scalar::vec floats;

    friend vec operator+(vec a, vec b) { return {rounded(a.floats + b.floats)}; }
    friend vec operator*(vec a, vec b) { return {rounded(a.floats * b.floats)}; }
  };

  static ivec each(int x) { return ivec{x, x, x, x}; }

  // To the nearest, half to even. Where 1.5 times 2^13 times a number's power of two is added, only the bits are left that half
  // precision has; below 2^-14 these are multiples of 2^-24.
  static Scalar::vec rounded(Scalar::vec x) {
    const ivec least = each(113 << 23), most = each(143 << 23);  // 2^-14, 2^16
    ivec power = (ivec)x & 0x7F800000;
    power = power < least ? least : power;
    power = power > most ? most : power;
    const Scalar::vec magic = (Scalar::vec)(power + (13 << 23)) * Scalar::set(1.5f);
    const ivec near = (ivec)((x + magic) - magic), magnitude = near & 0x7FFFFFFF;
    const ivec beyond = (magnitude > 0x477FE000) & (magnitude < 0x7F800000);  // 65504, infinity
    return (Scalar::vec)(beyond ? (near & ~0x7FFFFFFF) | 0x7F800000 : near);
  }

  typedef std::uint16_t halves __attribute__((vector_size(8)));

  // The bits of a half are those of a float 2^112 times smaller, 13 places to the right.
  static vec load(const element* p) {
    halves few;
    __builtin_memcpy(&few, p, sizeof few);
    const ivec bits = __builtin_convertvector(few, ivec);
    const ivec magnitude = (ivec)((Scalar::vec)((bits & 0x7FFF) << 13) * Scalar::set(0x1p112f));
    const ivec beyond = magnitude > 0x477FE000;  // infinity and NaN
    return {(Scalar::vec)(magnitude | (beyond & 0x7F800000) | (bits & 0x8000) << 16)};
  }
  static void store(element* p, vec v) {
    const ivec bits = (ivec)v.floats, small = (ivec)((Scalar::vec)(bits & 0x7FFFFFFF) * Scalar::set(0x1p-112f));
    const halves few = __builtin_convertvector((small >> 13 & 0x7FFF) | (bits >> 16 & 0x8000), halves);
    __builtin_memcpy(p, &few, sizeof few);
  }
  static element element_of(float x) {
    element all[width];
    store(all, set(x));
    return all[0];
  }
  static float float_of(element x) {
    const element all[width] = {x, x, x, x};
    return load(all).floats[0];
  }

  static vec set(float x) { return {rounded(Scalar::set(x))}; }
  static vec fma(vec a, vec b, vec c) { return {rounded(a.floats * b.floats + c.floats)}; }  // products are exact
  static vec max(vec bound, vec x) { return {Scalar::max(bound.floats, x.floats)}; }
  static vec largest(vec a, vec b) { return {Scalar::largest(a.floats, b.floats)}; }
  static vec min(vec bound, vec x) { return {Scalar::min(bound.floats, x.floats)}; }
  static vec keep(vec v, ivec mask) { return {Scalar::keep(v.floats, mask)}; }
  static void load_pair(const element* p, vec& even, vec& odd) {
    const Scalar::vec a = load(p).floats, b = load(p + width).floats;
    even.floats = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    odd.floats = __builtin_shufflevector(a, b, 1, 3, 5, 7);
  }
  template <int k>
  static vec slide(vec a, vec b) {
    return {Scalar::slide<k>(a.floats, b.floats)};
  }
  template <int channel>
  static vec fma_weight(vec x, const element* weights, vec sum) {
    return fma(x, {Scalar::set(static_cast<float>(weights[channel]))}, sum);
  }

  static Scalar::vec load_floats(const element* p) { return load(p).floats; }
  static void widen(vec x, Scalar::vec (&floats)[1]) { floats[0] = x.floats; }
  static vec narrow(const Scalar::vec (&floats)[1]) { return {rounded(floats[0])}; }
};

}  // namespace

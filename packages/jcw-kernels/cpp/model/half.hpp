// Numbers of half precision (IEEE 754 binary16), as files hold them.
#pragma once

#include <cstdint>
#include <cstring>

namespace jcw {

using Half = std::uint16_t;  // its bits

// Exact. Infinity and NaN stay what they are.
inline float float_of_half(Half half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1Fu, fraction = half & 0x3FFu;
  if (exponent == 0) {  // zero, or less than a normal number: a multiple of 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFu : exponent + (127 - 15);
  const std::uint32_t bits = sign | wide << 23 | fraction << 13;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, half to even; infinity from 65520 on. Adding 1.5 times 2^13 times the power of two of a number leaves the bits
// that half precision has, and those of multiples of 2^-24 where it is below 2^-14.
inline Half half_of_float(float value) {
  const auto bits_of = [](float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  };
  const std::uint32_t sign = bits_of(value) >> 16 & 0x8000u;
  float size = sign ? -value : value;
  if (!(size < 65520.0f)) return static_cast<Half>(sign | (size == size ? 0x7C00u : 0x7E00u));
  const std::uint32_t power = (bits_of(size) & 0x7F800000u) + (13u << 23), least = (127u - 14 + 13) << 23;
  float magic;
  std::memcpy(&magic, power < least ? &least : &power, sizeof magic);
  magic *= 1.5f;
  size = (size + magic) - magic;
  return static_cast<Half>(sign | bits_of(size * 0x1p-112f) >> 13);
}

}  // namespace jcw

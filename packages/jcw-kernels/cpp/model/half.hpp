// Numbers of half precision (IEEE 754 binary16), as files hold them.
#pragma once

#include <cstdint>
#include <cstring>

namespace jcw {

// Exact. Infinity and NaN stay what they are.
inline float float_of_half(std::uint16_t half) {
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

}  // namespace jcw

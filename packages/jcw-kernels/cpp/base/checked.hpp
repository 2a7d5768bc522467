// Arithmetic on sizes that come from a file: what does not fit is an error instead of a small number.
#pragma once

#include <cstdint>
#include <limits>

#include "base/error.hpp"

namespace jcw {

// Sizes whose product or sum is beyond 64 bits.
struct SizeError : FormatError {
  SizeError() : FormatError("its sizes multiply to more than a computer can count") {}
};

// a * b * rest... Throws SizeError when that is no 64-bit number.
inline std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw SizeError();
  return product;
}

template <class... Rest>
std::int64_t times(std::int64_t a, std::int64_t b, Rest... rest) {
  return times(times(a, b), std::int64_t{rest}...);
}

// a + b. Throws SizeError when that is no 64-bit number.
inline std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw SizeError();
  return sum;
}

// The same number as an int. Throws SizeError when it is none.
inline int whole(std::int64_t size) {
  if (size < std::numeric_limits<int>::min() || size > std::numeric_limits<int>::max()) throw SizeError();
  return static_cast<int>(size);
}

}  // namespace jcw

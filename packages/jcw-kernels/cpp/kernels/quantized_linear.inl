// Fully connected layers of whole numbers, which quantized.inl tells of. A vector of adjacent inputs meets the weights of each of a
// group's four outputs, and what lanes summed up is added in the end. All inputs are read: to gather those that a mask keeps took as
// long as ten times as many in order.
#pragma once

#include "linear.inl"
#include "quantized.inl"

namespace {

using jcw::QuantizedLinear;
typedef std::int32_t four_ints __attribute__((vector_size(16)));

// What is multiplied: bytes where an instruction takes these, or 16 bits.
template <class Dot>
using Factor = std::conditional_t<Dot::inputs == 4, typename Dot::pixel, std::int16_t>;
template <class Dot>
constexpr int kFactors = sizeof(typename Dot::vec) / sizeof(Factor<Dot>);

template <class Dot, class Stored>
JCW_INLINE typename Dot::vec load_factors(const Stored* at) {
  typename Dot::vec loaded;
  if constexpr (sizeof(Stored) == sizeof(Factor<Dot>)) {
    __builtin_memcpy(&loaded, at, sizeof loaded);
  } else if constexpr (requires { Dot::widened(at); }) {  // gcc 12 takes a vector apart to convert it
    loaded = Dot::widened(at);
  } else {
    typedef Stored stored __attribute__((vector_size(sizeof(Stored) * kFactors<Dot>)));
    typedef Factor<Dot> factors __attribute__((vector_size(sizeof loaded)));
    stored few;
    __builtin_memcpy(&few, at, sizeof few);
    const factors all = __builtin_convertvector(few, factors);
    __builtin_memcpy(&loaded, &all, sizeof loaded);
  }
  return loaded;
}

template <class Dot>
JCW_INLINE void add_products(const typename Dot::pixel* in, const std::int8_t* weights, int products, typename Dot::vec (&sums)[4]) {
  for (int p = 0; p < products; ++p, in += kFactors<Dot>) {
    const typename Dot::vec x = load_factors<Dot>(in);
    JCW_UNROLL
    for (int r = 0; r < 4; ++r, weights += kFactors<Dot>) sums[r] = Dot::add_all(x, load_factors<Dot>(weights), sums[r]);
  }
}

template <class Vec>
JCW_INLINE four_ints quarter(const Vec& sum) {
  four_ints part[sizeof(Vec) / sizeof(four_ints)];
  __builtin_memcpy(part, &sum, sizeof part);
  for (unsigned i = 1; i < sizeof part / sizeof *part; ++i) part[0] += part[i];
  return part[0];
}

// Of each vector, all lanes.
template <class Vec>
JCW_INLINE four_ints totals(const Vec (&sums)[4]) {
  const four_ints a = quarter(sums[0]), b = quarter(sums[1]), c = quarter(sums[2]), d = quarter(sums[3]);
  const four_ints ab = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
  const four_ints cd = __builtin_shufflevector(c, d, 0, 2, 4, 6) + __builtin_shufflevector(c, d, 1, 3, 5, 7);
  return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
}

template <class Dot>
void linear_quantized(const QuantizedLinear& linear, int group_begin, int group_end) {
  const auto* in = static_cast<const typename Dot::pixel*>(linear.layer.in);
  const std::ptrdiff_t group_weights = std::ptrdiff_t{linear.products} * 4 * kFactors<Dot>;
  for (int group = group_begin; group < group_end; ++group) {
    typename Dot::vec sums[4] = {Dot::set(0), Dot::set(0), Dot::set(0), Dot::set(0)};
    add_products<Dot>(in, linear.weights + group * group_weights, linear.products, sums);
    four_ints first;
    __builtin_memcpy(&first, linear.first + 4 * group, sizeof first);
    const four sum = __builtin_convertvector(totals(sums) + first, four);
    finish_four(linear.layer, group, sum * load_four(linear.scales + 4 * group) + load_four(linear.layer.bias + 4 * group));
  }
}

}  // namespace

// The table of kernels of half precision as portable code runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_half_scalar.hpp"

namespace {
using Isa = HalfScalar;
}

// The traits come first: everything below is written in terms of Isa.
#include "half.inl"

extern "C" const jcw::Kernels* jcw_half_scalar() { return &kTable; }

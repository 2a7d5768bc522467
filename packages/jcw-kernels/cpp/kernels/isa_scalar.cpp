// The table of all kernels as portable code runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_scalar.hpp"

namespace {
using Isa = Scalar;
}

// The traits come first: everything below is written in terms of Isa.
#include "all.inl"

extern "C" const jcw::Kernels* jcw_kernels_scalar() { return &kTable; }

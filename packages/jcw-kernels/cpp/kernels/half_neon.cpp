// The table of kernels of half precision as NEON with ARMv8.2's extension FP16 runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_half_neon.hpp"

namespace {
using Isa = HalfNeon;
}

// The traits come first: everything below is written in terms of Isa.
#include "half.inl"

extern "C" const jcw::Kernels* jcw_half_neon() { return &kTable; }

// The table of kernels of half precision as AVX-512 with its extension FP16 runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_half_avx512fp16.hpp"

namespace {
using Isa = HalfAvx512;
}

// The traits come first: everything below is written in terms of Isa.
#include "half.inl"

extern "C" const jcw::Kernels* jcw_half_avx512fp16() { return &kTable; }

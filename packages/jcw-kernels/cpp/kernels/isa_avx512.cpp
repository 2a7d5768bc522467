// The table of all kernels as AVX-512 runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_avx512.hpp"

namespace {
using Isa = Avx512;
}

// The traits come first: everything below is written in terms of Isa.
#include "all.inl"

extern "C" const jcw::Kernels* jcw_kernels_avx512() { return &kTable; }

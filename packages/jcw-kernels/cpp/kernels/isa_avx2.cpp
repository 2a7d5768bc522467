// The table of all kernels as AVX2 runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_avx2.hpp"
// The traits come first: everything below is written in terms of Isa.
#include "all.inl"

extern "C" const jcw::Kernels* jcw_kernels_avx2() { return &kTable; }

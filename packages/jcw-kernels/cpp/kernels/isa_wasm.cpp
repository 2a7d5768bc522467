// The table of all kernels as WebAssembly SIMD runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_wasm.hpp"
// The traits come first: everything below is written in terms of Isa.
#include "all.inl"

extern "C" const jcw::Kernels* jcw_kernels_wasm() { return &kTable; }

// The table of all kernels as NEON runs them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "traits_neon.hpp"

namespace {
using Isa = Neon;
}

// The traits come first: everything below is written in terms of Isa.
#include "all.inl"

extern "C" const jcw::Kernels* jcw_kernels_neon() { return &kTable; }

// How fast tile loops are with their data in L1 cache: the rates that layers are compared with.
#pragma once

#include "kernels/kernels.hpp"

namespace jcw {

// GFLOP/s, a multiplication and an addition being two, at the clock of this moment: the best of `rounds` runs.
double peak_gflops(const Kernels& kernels, int rounds);
double peak_gflops(const QuantizedKernels& kernels, int rounds);

}  // namespace jcw

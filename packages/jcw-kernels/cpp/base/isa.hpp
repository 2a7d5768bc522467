// Which instruction sets this build has, which of them this machine has, and which one to use.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace jcw {

// Names of the instruction sets that run here, best first.
std::vector<std::string> available_isas();

// Kernels of `name`; with "" those that JCW_ISA names, or else the best. Throws DeviceError for a name
// that is unknown or not available here, listing what is.
const Kernels& choose_isa(const std::string& name);

// The fastest kernels of half precision that this processor has beside `kernels`.
const Kernels& half_kernels(const Kernels& kernels);

// The fastest kernels of whole numbers that this processor has beside `kernels`; where JCW_DOT is "never", without its dot
// products of bytes. Throws UsageError where that is neither "always" nor "never".
const QuantizedKernels& quantized_kernels(const Kernels& kernels);

}  // namespace jcw

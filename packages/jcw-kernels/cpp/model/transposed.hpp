// Transposed convolutions as ordinary ones, whose kernels are thirty times as fast as plain loops.
#pragma once

#include "model/model.hpp"

namespace jcw {

// Output pixels of one phase, those with one remainder by the stride, are an ordinary convolution of the input. So a convolution
// that makes all phases as channels, most of whose weights are zero, and a pixel shuffle take a transposed one's place, but where
// they would have many times its weights.
void split_transposed(Model& model);

}  // namespace jcw

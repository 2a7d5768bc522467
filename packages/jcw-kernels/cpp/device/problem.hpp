// One line of `jcw-device layers`: a convolution to time.
#pragma once

#include <string>

#include "core/model.hpp"

namespace jcw {

struct Problem {
  Shape in;
  int out_channels = 1, groups = 1;
  Pair kernel, stride, padding;
  double density = 1.0;
};

// Reads "channels height width out_channels kernel_y kernel_x stride_y stride_x padding_y padding_x groups
// density". Throws FormatError, naming the line.
Problem parse_problem(const std::string& line, int number);

// The convolution behind a copy of its input, with random weights of which the share `density` is kept.
Model problem_model(const Problem& problem);

}  // namespace jcw

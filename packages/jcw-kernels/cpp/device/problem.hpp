// One line of `jcw-device layers`: a layer to time, and the network that is built around it.
#pragma once

#include <string>

#include "model/model.hpp"

namespace jcw {

// A layer behind the units that make its inputs: `unit` is the number of its first one, the output that of the
// tensor that its last one makes.
struct Layer {
  Model model;
  int unit = 0;

  std::int64_t weight_bytes() const;  // of the kept weights, roughly
};

// Reads a JSON object with the fields of jcw_core.network.problem.LayerProblem, and gives the layer random
// weights pruned to its density. Precision "float16" is as in a network that computes so, "int8" as in one whose convolutions
// compute with whole numbers where that gains. Fields that are left out have the defaults of that class. Throws FormatError, also for
// what that class refuses.
Layer parse_layer(const std::string& line, const std::string& precision);

}  // namespace jcw

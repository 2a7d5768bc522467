// Which units run together: a 1 x 1 convolution and the depthwise one after it.
#pragma once

#include <vector>

#include "model/model.hpp"

namespace jcw {

// Of each unit, whether it runs together with the next one.
std::vector<bool> pairs_with_next(const Model& model);

}  // namespace jcw

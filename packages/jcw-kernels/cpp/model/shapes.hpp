// Shape inference, and the checks that make a unit safe to run.
#pragma once

#include "model/model.hpp"

namespace jcw {

// Sets unit.in and unit.out. Throws FormatError when the inputs do not fit the unit.
void infer_shapes(const Model& model, Unit& unit);

}  // namespace jcw

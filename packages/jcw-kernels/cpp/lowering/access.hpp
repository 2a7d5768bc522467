// How a windowed unit reads its input.
#pragma once

#include "model/model.hpp"

namespace jcw {

// Along flat runs where it lies, row by row with a stride of two, from a copy that is split into stride phases, or
// split by the operation itself, band by band.
enum class Access { flat, by_two, phases, bands };

Access access_of(const Model& model, const Unit& unit);

}  // namespace jcw

// Which files this engine reads: version, precision and checksum of a model.jcw.
#pragma once

#include <string>

#include "model/safetensors.hpp"

namespace jcw {

// Throws FormatError for a file that is no model.jcw, newer than this engine, of a precision that it lacks, or damaged.
void check_format(const Safetensors& file);

// "float32", where a file of the first version states none.
std::string precision_of(const Safetensors& file);

// The metadata called `key`. Throws FormatError when there is none.
const std::string& required(const Safetensors& file, const std::string& key);

}  // namespace jcw

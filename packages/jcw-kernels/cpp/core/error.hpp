// What the engine throws: one line that says what was found, what was expected and where.
#pragma once

#include <stdexcept>
#include <string>

namespace jcw {

// A model file that is damaged, hostile or of another kind.
struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Something this machine or build cannot do.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace jcw

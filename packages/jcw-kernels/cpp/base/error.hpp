// What the engine throws: one line that says what was found, what was expected and where.
#pragma once

#include <stdexcept>
#include <string>

namespace jcw {

// Names come from files that may hold any bytes; a message is one line of ASCII.
inline std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text.substr(0, 300);
}

struct Error : std::runtime_error {
  explicit Error(const std::string& what) : std::runtime_error(printable(what)) {}
};

// A model file that is damaged, malformed or of another kind.
struct FormatError : Error {
  using Error::Error;
};

// An option or a setting that makes no sense, whatever is run.
struct UsageError : Error {
  using Error::Error;
};

// Something this machine or build cannot do.
struct DeviceError : Error {
  using Error::Error;
};

}  // namespace jcw

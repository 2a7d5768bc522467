// The name of this machine's processor, and text as JSON.
#pragma once

#include <string>

namespace jcw {

// The processor's name: as the system gives it, or for ARM cores by their part number.
std::string cpu_name();

// `text` as a JSON string.
std::string quoted(const std::string& text);

}  // namespace jcw

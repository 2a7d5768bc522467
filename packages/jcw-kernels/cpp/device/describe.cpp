#include "device/describe.hpp"

#include <array>
#include <fstream>
#include <utility>

#include "core/error.hpp"

namespace jcw {
namespace {

// "CPU part" of cores designed by ARM (implementer 0x41): the main identification register's field.
constexpr std::array<std::pair<const char*, const char*>, 14> kParts = {{
    {"0xd03", "Cortex-A53"}, {"0xd04", "Cortex-A35"}, {"0xd05", "Cortex-A55"}, {"0xd07", "Cortex-A57"},
    {"0xd08", "Cortex-A72"}, {"0xd09", "Cortex-A73"}, {"0xd0a", "Cortex-A75"}, {"0xd0b", "Cortex-A76"},
    {"0xd0c", "Neoverse-N1"}, {"0xd0d", "Cortex-A77"}, {"0xd40", "Neoverse-V1"}, {"0xd41", "Cortex-A78"},
    {"0xd44", "Cortex-X1"}, {"0xd49", "Neoverse-N2"},
}};

// The value of the first line "key : value" whose key is `wanted`.
std::string cpuinfo(const std::string& wanted) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, wanted.size(), wanted) != 0) continue;
    if (line.find_last_not_of(" \t", colon - 1) + 1 != wanted.size()) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string part_name(const std::string& part) {
  for (const auto& [number, name] : kParts)
    if (part == number) return name;
  return "CPU part " + part;
}

std::string board() {
  std::ifstream file("/proc/device-tree/model");
  std::string name;
  std::getline(file, name, '\0');
  return name;
}

}  // namespace

std::string cpu_name() {
  if (const std::string name = cpuinfo("model name"); !name.empty()) return name;
  const std::string part = cpuinfo("CPU part"), machine = board();
  if (part.empty()) return machine.empty() ? "unknown" : machine;
  return machine.empty() ? part_name(part) : part_name(part) + ", " + machine;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace jcw

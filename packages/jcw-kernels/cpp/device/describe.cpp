// The processor's name from /proc/cpuinfo and the device tree.
#include "device/describe.hpp"

#include <sched.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace jcw {
namespace {

// "CPU part" of cores designed by ARM (implementer 0x41): the main identification register's field.
constexpr std::array<std::pair<const char*, const char*>, 14> kParts = {{
    {"0xd03", "Cortex-A53"}, {"0xd04", "Cortex-A35"}, {"0xd05", "Cortex-A55"}, {"0xd07", "Cortex-A57"},
    {"0xd08", "Cortex-A72"}, {"0xd09", "Cortex-A73"}, {"0xd0a", "Cortex-A75"}, {"0xd0b", "Cortex-A76"},
    {"0xd0c", "Neoverse-N1"}, {"0xd0d", "Cortex-A77"}, {"0xd40", "Neoverse-V1"}, {"0xd41", "Cortex-A78"},
    {"0xd44", "Cortex-X1"}, {"0xd49", "Neoverse-N2"},
}};

// The one that the program is pinned to, or else the first. Phones have fast and slow ones.
std::string processor() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::size_t index = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    while (index + 1 < CPU_SETSIZE && !CPU_ISSET(index, &allowed)) ++index;
  return std::to_string(index);
}

// Key and value of a line "key : value"; two empty strings for another line.
std::pair<std::string, std::string> entry(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos || colon == 0) return {};
  const std::size_t end = line.find_last_not_of(" \t", colon - 1), begin = line.find_first_not_of(" \t", colon + 1);
  return {line.substr(0, end + 1), begin == std::string::npos ? "" : line.substr(begin)};
}

// What is said of this processor under the key `wanted`, or else of the first that it is said of.
std::string cpuinfo(const std::string& wanted) {
  const std::string here = processor();
  std::ifstream file("/proc/cpuinfo");
  std::string line, current, first;
  while (std::getline(file, line)) {
    const auto [key, value] = entry(line);
    if (key == "processor") current = value;
    if (key != wanted) continue;
    if (current == here) return value;
    if (first.empty()) first = value;
  }
  return first;
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

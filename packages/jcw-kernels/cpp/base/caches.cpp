// What the C library, or Linux, says of caches.
#include "base/caches.hpp"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#if defined(__linux__)
#include <unistd.h>
#endif

#include "base/error.hpp"

namespace jcw {
namespace {

constexpr long kLeast = 64 << 10, kMost = 1 << 30, kUnknown = 1 << 20;

// 0 where `text` is no whole number.
long number(std::string_view text) {
  long found = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, found);
  return error == std::errc{} && end == last ? found : 0;
}

// As Linux lists it, e.g. "512K"; 0 where it does not.
[[maybe_unused]] long listed() {
  for (const char* index : {"2", "3", "1"}) {
    const std::string folder = std::string("/sys/devices/system/cpu/cpu0/cache/index") + index;
    std::string level, size;
    if (!(std::ifstream(folder + "/level") >> level) || level != "2") continue;
    if (std::ifstream(folder + "/size") >> size && size.ends_with('K')) return number({size.data(), size.size() - 1}) * 1024;
  }
  return 0;
}

long found() {
  long size = 0;
#if defined(__linux__) && defined(_SC_LEVEL2_CACHE_SIZE)
  size = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
#if defined(__linux__)
  if (size <= 0) size = listed();
#endif
  return size < kLeast || size > kMost ? kUnknown : size;
}

}  // namespace

double second_level_cache() {
  static const long machine = found();
  const char* forced = std::getenv("JCW_L2");
  if (!forced) return static_cast<double>(machine);
  const long wanted = number(forced);
  if (wanted < kLeast || wanted > kMost)
    throw UsageError("JCW_L2 is '" + std::string(forced) + "', expected bytes of a second-level cache, 65536 to 1073741824");
  return static_cast<double>(wanted);
}

}  // namespace jcw

// A reader for the JSON of model headers: values are immutable, every access is checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace jcw {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  // Throws FormatError with the byte offset of what is wrong.
  static Json parse(std::string_view text);

  // Each throws FormatError, naming `what`, when the value is of another type or out of range.
  const Array& array(const char* what) const;
  const Object& object(const char* what) const;
  const std::string& text(const char* what) const;
  bool boolean(const char* what) const;
  std::int64_t integer(const char* what, std::int64_t low, std::int64_t high) const;

  const Json* find(std::string_view key) const;  // null when absent or not an object
  const Json& at(std::string_view key) const;    // throws when absent

  std::variant<std::nullptr_t, bool, double, std::string, Array, Object> value = nullptr;
};

}  // namespace jcw

// Parsing JSON.
#include "model/json.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace jcw {
namespace {

// How many characters at the beginning are a number, and which. 0 where none is.
std::size_t length_of_number(std::string_view text, double& number) {
#if defined(__cpp_lib_to_chars)
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? static_cast<std::size_t>(stop - text.data()) : 0;
#else  // libc++ up to 19, whose strtod has no locale but "C" in WebAssembly and on Android
  const std::string digits(text.substr(0, text.find_first_not_of("+-.0123456789eE")));
  char* stop = nullptr;
  number = std::strtod(digits.c_str(), &stop);
  return digits.starts_with('+') ? 0 : static_cast<std::size_t>(stop - digits.c_str());
#endif
}

constexpr int kDeepest = 32;
// A value takes up to 40 bytes of memory, one with a key 72, and a list of them twice that while it grows. So there must
// not be one for every few bytes of text: the headers of models have 10 and 19 bytes for each.
constexpr std::size_t kFew = 4096, kValueBytes = 5, kMemberBytes = 8;

// Throws where reading the text would take many times its size.
void check_density(std::string_view text) {
  std::size_t values = 0, members = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    else if (c == '"') quoted = !quoted;
    else if (!quoted && (c == ',' || c == '[' || c == '{')) ++values;
    else if (!quoted && c == ':') ++members;
  }
  if (values > kFew + text.size() / kValueBytes || members > kFew + text.size() / kMemberBytes)
    throw FormatError("JSON of " + std::to_string(text.size()) + " bytes with more values than a header has");
}

// Whether text is UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF.
bool is_utf8(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = at(i), next = at(i + 1);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4) return false;
    if ((lead == 0xE0 && next < 0xA0) || (lead == 0xED && next > 0x9F)) return false;
    if ((lead == 0xF0 && next < 0x90) || (lead == 0xF4 && next > 0x8F)) return false;
    const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    for (std::size_t k = 1; k < length; ++k)
      if ((at(i + k) & 0xC0) != 0x80) return false;
    i += length;
  }
  return true;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json document() {
    Json value = read(0);
    skip_space();
    if (at_ != text_.size()) fail("text after the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw FormatError("JSON at byte " + std::to_string(at_) + ": " + what);
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  char peek() {
    skip_space();
    if (at_ == text_.size()) fail("ends too early");
    return text_[at_];
  }

  bool take(char expected) {
    if (peek() != expected) return false;
    ++at_;
    return true;
  }

  Json read(int depth) {
    if (depth > kDeepest) fail("nested too deep");
    switch (peek()) {
      case '{': return {read_object(depth)};
      case '[': return {read_array(depth)};
      case '"': return {read_string()};
      case 't': return word("true", Json{true});
      case 'f': return word("false", Json{false});
      case 'n': return word("null", Json{nullptr});
      default: return {read_number()};
    }
  }

  Json word(std::string_view expected, Json value) {
    if (text_.substr(at_, expected.size()) != expected) fail("unknown word");
    at_ += expected.size();
    return value;
  }

  double read_number() {
    double number = 0;
    const std::size_t length = length_of_number(text_.substr(at_), number);
    if (!length || !std::isfinite(number)) fail("not a number");
    at_ += length;
    return number;
  }

  Json::Array read_array(int depth) {
    Json::Array items;
    ++at_;
    if (take(']')) return items;
    do items.push_back(read(depth + 1));
    while (take(','));
    if (!take(']')) fail("expected , or ]");
    return items;
  }

  Json::Object read_object(int depth) {
    Json::Object members;
    ++at_;
    if (take('}')) return members;
    do {
      if (peek() != '"') fail("expected a key");
      std::string key = read_string();
      if (!take(':')) fail("expected :");
      members.emplace_back(std::move(key), read(depth + 1));
    } while (take(','));
    if (!take('}')) fail("expected , or }");
    return members;
  }

  std::string read_string() {
    std::string result;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        if (!is_utf8(result)) fail("text that is not UTF-8");
        return result;
      }
      if (c == '\\')
        read_escape(result);
      else
        result += c;
    }
    fail("string without end");
  }

  void read_escape(std::string& result) {
    if (++at_ == text_.size()) fail("string without end");
    constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    if (const auto known = names.find(text_[at_]); known != std::string_view::npos)
      result += values[known];
    else if (text_[at_] == 'u')
      append_utf8(result, read_code());
    else
      fail("unknown escape");
  }

  unsigned read_hex() {
    unsigned code = 0;
    if (text_.size() - at_ < 5) fail("string without end");
    const char* first = text_.data() + at_ + 1;
    const auto [stop, error] = std::from_chars(first, first + 4, code, 16);
    if (error != std::errc() || stop != first + 4) fail("bad \\u escape");
    at_ += 4;
    return code;
  }

  // One code point: characters beyond 16 bits are written as two surrogates.
  unsigned read_code() {
    const unsigned code = read_hex();
    if (code < 0xD800 || code > 0xDFFF) return code;
    if (code > 0xDBFF || text_.substr(at_ + 1, 2) != "\\u") fail("half of a surrogate pair");
    at_ += 2;
    const unsigned low = read_hex();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }

  static void append_utf8(std::string& result, unsigned code) {
    if (code < 0x80) {
      result += static_cast<char>(code);
    } else if (code < 0x800) {
      result += static_cast<char>(0xC0 | code >> 6);
      result += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      if (code < 0x10000) {
        result += static_cast<char>(0xE0 | code >> 12);
      } else {
        result += static_cast<char>(0xF0 | code >> 18);
        result += static_cast<char>(0x80 | (code >> 12 & 0x3F));
      }
      result += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      result += static_cast<char>(0x80 | (code & 0x3F));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <class T>
const T& typed(const Json& json, const char* what, const char* type) {
  const T* value = std::get_if<T>(&json.value);
  if (!value) throw FormatError(std::string(what) + " is not " + type);
  return *value;
}

}  // namespace

Json Json::parse(std::string_view text) {
  check_density(text);
  return Reader(text).document();
}

const Json::Array& Json::array(const char* what) const { return typed<Array>(*this, what, "a list"); }
const Json::Object& Json::object(const char* what) const { return typed<Object>(*this, what, "an object"); }
const std::string& Json::text(const char* what) const { return typed<std::string>(*this, what, "text"); }

bool Json::boolean(const char* what) const { return typed<bool>(*this, what, "true or false"); }

std::int64_t Json::integer(const char* what, std::int64_t low, std::int64_t high) const {
  const double number = typed<double>(*this, what, "a number");
  if (number != std::floor(number) || number < static_cast<double>(low) || number > static_cast<double>(high))
    throw FormatError(std::string(what) + " is " + std::to_string(number) + ", expected a whole number from " +
                      std::to_string(low) + " to " + std::to_string(high));
  return static_cast<std::int64_t>(number);
}

const Json* Json::find(std::string_view key) const {
  if (const Object* members = std::get_if<Object>(&value))
    for (const auto& [name, member] : *members)
      if (name == key) return &member;
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  const Json* member = find(key);
  if (!member) throw FormatError("the key " + std::string(key) + " is missing");
  return *member;
}

}  // namespace jcw

// Reading the command line of jcw-device.
#include "device/options.hpp"

#include <charconv>

#include "base/error.hpp"

namespace jcw {
namespace {

constexpr const char* kUsage =
    "usage: jcw-device describe | layers FILE | run MODEL... [--input FILE --output FILE] "
    "[--rounds N] [--visit-ms X] [--threads N] [--isa NAME] [--precision float32|float16|int8] [--once]";

template <class Number>
Number number(const std::string& option, const std::string& text, Number low, Number high) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high))
    throw UsageError(option + " is '" + text + "', expected a number from " + std::to_string(low) + " to " +
                     std::to_string(high));
  return value;
}

const std::string& checked_precision(const std::string& word) {
  if (word == "float32" || word == "float16" || word == "int8") return word;
  throw UsageError("--precision is '" + word + "', expected float32, float16 or int8");
}

void set(Options& options, const std::string& name, const std::string& value) {
  if (name == "--rounds") options.rounds = number(name, value, 1, 1000000);
  else if (name == "--threads") options.threads = number(name, value, 1, 256);
  else if (name == "--visit-ms") options.visit_ms = number(name, value, 0.001, 1e6);
  else if (name == "--isa") options.isa = value;
  else if (name == "--precision") options.precision = checked_precision(value);
  else if (name == "--input") options.input = value;
  else if (name == "--output") options.output = value;
  else throw UsageError("unknown option " + name + "; " + kUsage);
}

void check(const Options& options) {
  const std::size_t files = options.files.size();
  const bool known = options.command == "describe" ? files == 0 : options.command == "layers" ? files == 1
                     : options.command == "run" && files >= 1;
  if (!known) throw UsageError(kUsage);
  if (options.input.empty() != options.output.empty() || (!options.input.empty() && files != 1))
    throw UsageError("--input and --output go together, with one model");
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--once") {
      options.once = true;
    } else if (word.starts_with("--")) {
      if (i + 1 == words.size()) throw UsageError(word + " needs a value");
      set(options, word, words[++i]);
    } else if (options.command.empty()) {
      options.command = word;
    } else {
      options.files.push_back(word);
    }
  }
  check(options);
  return options;
}

}  // namespace jcw

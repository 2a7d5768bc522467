// Version, precision and checksum of a model.jcw. Version 1 states neither of the latter two; from version 3 on weights may
// be of half precision, from version 4 on convolutions of whole numbers, from version 5 on depthwise ones of these, from version 6
// on linear layers. From version 7 on planes are resized to any size, also with corners on one another, and layers
// end in slopes.
#include "model/format.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "base/error.hpp"
#include "model/crc32.hpp"

namespace jcw {
namespace {

constexpr std::string_view kFormat = "jcw-model/";
constexpr int kNewest = 7;
constexpr std::string_view kPrecisions[] = {"float32", "float16", "int8"};

// Of one to nine digits.
int version_of(const std::string& format) {
  const std::string digits = format.starts_with(kFormat) ? format.substr(kFormat.size()) : "";
  if (digits.empty() || digits.size() > 9 || !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    throw FormatError("the header does not say format " + std::string(kFormat) + std::to_string(kNewest));
  return std::stoi(digits);
}

// As jcw_kernels.model_file.checksum computes it; both maps are in order of name.
std::string checksum(const Safetensors& file) {
  Crc32 crc;
  for (const auto& [name, text] : file.metadata) {
    if (name == "checksum") continue;
    crc.add(std::as_bytes(std::span(name)));
    crc.add(std::as_bytes(std::span(text)));
  }
  for (const auto& [name, tensor] : file.tensors) {
    crc.add(std::as_bytes(std::span(name)));
    crc.add(tensor.bytes);
  }
  char text[16];
  std::snprintf(text, sizeof text, "crc32:%08x", crc.value());
  return text;
}

}  // namespace

const std::string& required(const Safetensors& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) throw FormatError("the header has no " + key);
  return found->second;
}

std::string precision_of(const Safetensors& file) {
  const auto found = file.metadata.find("precision");
  return found == file.metadata.end() || version_of(required(file, "format")) < 2 ? "float32" : found->second;
}

void check_format(const Safetensors& file) {
  const std::string& format = required(file, "format");
  const int version = version_of(format);
  if (version > kNewest)
    throw FormatError("the file is of format " + format + ", newer than this engine, which reads up to " +
                      std::string(kFormat) + std::to_string(kNewest));
  if (version < 2) return;
  required(file, "precision");
  const std::string precision = precision_of(file);
  if (std::find(std::begin(kPrecisions), std::end(kPrecisions), precision) == std::end(kPrecisions))
    throw FormatError("the file is of precision " + precision + ", this engine computes in float32, float16 and int8");
  const std::string &stated = required(file, "checksum"), found = checksum(file);
  if (stated != found) throw FormatError("the file is damaged: its checksum is " + found + ", it should be " + stated);
}

}  // namespace jcw

// Reads the safetensors container: a JSON header, then raw arrays. Nothing is trusted.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace jcw {

struct TensorView {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // as many as shape and dtype say
};

struct Safetensors {
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;

  // The views point into `file`. Throws FormatError.
  static Safetensors parse(std::span<const std::byte> file);
};

}  // namespace jcw

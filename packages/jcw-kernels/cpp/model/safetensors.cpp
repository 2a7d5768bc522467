// Reading the header of a safetensors file.
#include "model/safetensors.hpp"

#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "model/json.hpp"

namespace jcw {
namespace {

constexpr std::uint64_t kLargestHeader = 16 << 20;  // of 100,000 units
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

std::int64_t item_bytes(const std::string& dtype, const std::string& name) {
  if (dtype == "F32") return 4;
  if (dtype == "F16") return 2;
  if (dtype == "U8" || dtype == "I8") return 1;
  throw FormatError("tensor " + name + " is of type " + dtype + ", expected F32, F16, I8 or U8");
}

TensorView view(const std::string& name, const Json& entry, std::span<const std::byte> data) {
  TensorView tensor;
  tensor.dtype = entry.at("dtype").text("dtype");
  std::int64_t bytes = item_bytes(tensor.dtype, name);
  for (const Json& size : entry.at("shape").array("shape")) {
    tensor.shape.push_back(size.integer("a tensor's size", 0, kLargest));
    if (tensor.shape.back() && bytes > kLargest / tensor.shape.back())
      throw FormatError("tensor " + name + " is larger than any file");
    bytes *= tensor.shape.back();
  }
  const Json::Array& offsets = entry.at("data_offsets").array("data_offsets");
  if (offsets.size() != 2) throw FormatError("tensor " + name + " has no two data_offsets");
  const auto limit = static_cast<std::int64_t>(data.size());
  const std::int64_t begin = offsets[0].integer("data_offsets", 0, limit);
  const std::int64_t end = offsets[1].integer("data_offsets", begin, limit);
  if (end - begin != bytes)
    throw FormatError("tensor " + name + " has " + std::to_string(end - begin) + " bytes, its shape needs " +
                      std::to_string(bytes));
  tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
  return tensor;
}

}  // namespace

Safetensors Safetensors::parse(std::span<const std::byte> file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) throw FormatError("the file is shorter than 8 bytes");
  for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<std::uint64_t>(file[static_cast<std::size_t>(i)]);
  if (length > kLargestHeader || length > file.size() - sizeof length)
    throw FormatError("the header claims " + std::to_string(length) + " bytes, the file has " +
                      std::to_string(file.size()));
  const auto* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  const Json header = Json::parse({text, static_cast<std::size_t>(length)});
  Safetensors result;
  for (const auto& [name, entry] : header.object("the header")) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.object("__metadata__")) result.metadata[key] = value.text("metadata");
    } else {
      result.tensors[name] = view(name, entry, file.subspan(sizeof length + static_cast<std::size_t>(length)));
    }
  }
  return result;
}

}  // namespace jcw

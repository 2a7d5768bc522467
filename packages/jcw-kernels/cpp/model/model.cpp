// Reading a model.jcw: units, attributes, weights.
#include "model/model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "model/format.hpp"
#include "model/half.hpp"
#include "model/json.hpp"
#include "model/safetensors.hpp"
#include "model/shapes.hpp"
#include "model/transposed.hpp"
#include "model/windows.hpp"

namespace jcw {
namespace {

constexpr int kLargestWindow = 1 << 12;  // kernel, stride, padding
constexpr std::int64_t kLargestModel = std::int64_t{1} << 31;  // floats of all weights

constexpr std::array<std::pair<std::string_view, Op>, 21> kOps = {{
    {"conv2d", Op::conv2d},     {"linear", Op::linear},   {"max_pool", Op::max_pool},
    {"avg_pool", Op::avg_pool}, {"add", Op::add},         {"global_avg_pool", Op::global_avg_pool},
    {"flatten", Op::flatten},   {"mul", Op::mul},         {"activation", Op::activation},
    {"concat", Op::concat},     {"clip", Op::clip},       {"leaky_relu", Op::leaky_relu},
    {"elu", Op::elu},           {"prelu", Op::prelu},     {"softmax", Op::softmax},
    {"slice", Op::slice},       {"channel_shuffle", Op::channel_shuffle},
    {"resize_nearest", Op::resize_nearest}, {"resize_bilinear", Op::resize_bilinear},
    {"pixel_shuffle", Op::pixel_shuffle},   {"conv_transpose2d", Op::conv_transpose2d},
}};

constexpr std::array<std::pair<std::string_view, Activation>, 8> kActivations = {{
    {"", Activation::none},
    {"relu", Activation::relu},
    {"relu6", Activation::relu6},
    {"hardswish", Activation::hardswish},
    {"hardsigmoid", Activation::hardsigmoid},
    {"sigmoid", Activation::sigmoid},
    {"silu", Activation::silu},
    {"prelu", Activation::leaky},
}};

template <class Table>
auto look_up(const Table& table, const std::string& name, const char* what) {
  for (const auto& [known, value] : table)
    if (known == name) return value;
  throw FormatError(std::string("unknown ") + what + " '" + name + "'");
}

int integer(const Json& object, const char* key, int low, int high, int absent) {
  const Json* value = object.find(key);
  return value ? static_cast<int>(value->integer(key, low, high)) : absent;
}

Pair pair(const Json& object, const char* key, int low, Pair absent, int high = kLargestWindow) {
  const Json* value = object.find(key);
  if (!value) return absent;
  const Json::Array& items = value->array(key);
  if (items.size() != 2) throw FormatError(std::string(key) + " is not a pair");
  return {static_cast<int>(items[0].integer(key, low, high)), static_cast<int>(items[1].integer(key, low, high))};
}

// A pair for both ends of the axes, or four numbers: top, left, bottom, right.
void read_padding(const Json& entry, Unit& unit) {
  const Json* value = entry.find("padding");
  if (value && value->array("padding").size() == 4) {
    const Json::Array& items = value->array("padding");
    const auto at = [&](std::size_t i) { return static_cast<int>(items[i].integer("padding", 0, kLargestWindow)); };
    unit.padding = {at(0), at(1)};
    unit.padding_end = {at(2), at(3)};
  } else {
    unit.padding = unit.padding_end = pair(entry, "padding", 0, {0, 0});
  }
}

// A number, whole or not, that a float can hold.
float number(const Json& object, const char* key) {
  const Json* value = object.find(key);
  if (!value) return 0.0f;
  const double* found = std::get_if<double>(&value->value);
  if (!found || !(std::abs(*found) <= std::numeric_limits<float>::max()))
    throw FormatError(std::string(key) + " is not a number that a float can hold");
  return static_cast<float>(*found);
}

void read_portable(const Json& entry, Unit& unit) {
  unit.low = number(entry, "low");
  unit.high = number(entry, "high");
  unit.slope = number(entry, unit.op == Op::elu ? "alpha" : "slope");
  unit.start = integer(entry, "start", 0, kLargestSize, 0);
  unit.scale = pair(entry, "scale", 1, {1, 1});
  unit.size = pair(entry, "size", 0, {0, 0}, kLargestSize);
  if (const Json* aligned = entry.find("align_corners")) unit.align_corners = aligned->boolean("align_corners");
  if (const int factor = integer(entry, "factor", 1, kLargestWindow, 1); factor != 1) unit.scale = {factor, factor};
}

// Of what a unit computes with whole numbers.
void read_quantization(const Json& entry, Unit& unit) {
  unit.zero = integer(entry, "input_zero", 0, 255, 0);
  if (!entry.find("input_scale")) return;
  unit.input_scale = number(entry, "input_scale");
  if (!(unit.input_scale >= std::numeric_limits<float>::min()) || !std::isfinite(1.0f / unit.input_scale))
    throw FormatError("input_scale is no number above 0 whose inverse a float can hold");
}

Shape input_shape(const Json& program) {
  const Json::Array& sizes = program.at("input").array("input");
  if (sizes.empty() || sizes.size() > 3) throw FormatError("the input's shape has no one to three sizes");
  std::array<int, 3> size = {1, 1, 1};
  for (std::size_t i = 0; i < sizes.size(); ++i) size[i] = static_cast<int>(sizes[i].integer("input", 1, kLargestSize));
  const Shape shape = {size[0], size[1], size[2]};
  if (shape.size() > kLargestTensor) throw FormatError("the input is too large");
  return shape;
}

template <class Stored, class Value>
void convert(const TensorView& tensor, std::vector<float>& values, const Value& value) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, tensor.bytes.data() + i * sizeof stored, sizeof stored);
    values[i] = value(stored);
  }
}

// Of any type that files hold numbers in.
std::vector<float> floats(const TensorView& tensor, const std::string& name, std::int64_t expected) {
  const bool half = tensor.dtype == "F16", byte = tensor.dtype == "I8";
  const std::int64_t bytes = expected * (half ? 2 : byte ? 1 : 4);
  if ((!half && !byte && tensor.dtype != "F32") || static_cast<std::int64_t>(tensor.bytes.size()) != bytes)
    throw FormatError("tensor " + name + " has " + std::to_string(tensor.bytes.size()) + " bytes of " + tensor.dtype +
                      ", expected " + std::to_string(expected) + " values of F32, F16 or I8");
  std::vector<float> values(static_cast<std::size_t>(expected));
  if (half)
    convert<std::uint16_t>(tensor, values, float_of_half);
  else if (byte)
    convert<std::int8_t>(tensor, values, [](std::int8_t stored) { return static_cast<float>(stored); });
  else
    convert<float>(tensor, values, [](float stored) { return stored; });
  for (const float value : values)
    if (!std::isfinite(value)) throw FormatError("tensor " + name + " holds NaN or infinity");
  return values;
}

const TensorView& tensor(const Safetensors& file, const std::string& name) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) throw FormatError("tensor " + name + " is missing");
  return found->second;
}

// Pruned weights: one bit per group of four output channels and position, and the kept groups' values.
std::vector<float> expand(const Safetensors& file, const Unit& unit) {
  const std::int64_t positions = unit.positions(), groups = divide_up(unit.out_channels, kGroup);
  const TensorView& mask = tensor(file, unit.name + ".mask");
  if (mask.dtype != "U8" || static_cast<std::int64_t>(mask.bytes.size()) != (groups * positions + 7) / 8)
    throw FormatError("tensor " + unit.name + ".mask has another size than its layer");
  std::int64_t kept = 0;
  for (const std::byte bits : mask.bytes) kept += std::popcount(std::to_integer<unsigned>(bits));
  const std::string name = unit.name + ".values";
  const std::vector<float> values = floats(tensor(file, name), name, kept * kGroup);
  std::vector<float> weight(static_cast<std::size_t>(unit.weights()));
  std::int64_t next = 0;
  for (std::int64_t bit = 0; bit < groups * positions; ++bit) {
    if (!(std::to_integer<unsigned>(mask.bytes[static_cast<std::size_t>(bit / 8)]) >> bit % 8 & 1)) continue;
    const std::int64_t first = bit / positions * kGroup;
    for (std::int64_t r = 0; r < kGroup && first + r < unit.out_channels; ++r)
      weight[static_cast<std::size_t>((first + r) * positions + bit % positions)] =
          values[static_cast<std::size_t>(next * kGroup + r)];
    ++next;
  }
  if (next != kept) throw FormatError("tensor " + unit.name + ".mask sets bits past its end");
  return weight;
}

// Throws FormatError unless the sums of the unit's products fit in 32 bits.
void check_whole_numbers(const Unit& unit) {
  if (unit.positions() > kMostProducts) throw FormatError("unit " + unit.name + ": sums of too many products for int8");
  for (const float weight : unit.weight)
    if (weight != std::nearbyint(weight) || std::abs(weight) > 127)
      throw FormatError("unit " + unit.name + ": has an input_scale, but weights that are no int8 from -127 on");
}

// Scales of whole-numbered weights; and what they are worth, where a unit computes with floats.
void read_scales(const Safetensors& file, Unit& unit) {
  const std::string name = unit.name + ".scale";
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) {
    if (unit.input_scale > 0) throw FormatError("unit " + unit.name + ": has an input_scale, but its weights have no scale");
    return;
  }
  unit.weight_scale = floats(found->second, name, unit.out_channels);
  if (unit.input_scale > 0) return check_whole_numbers(unit);
  const std::size_t positions = static_cast<std::size_t>(unit.positions());
  for (std::size_t i = 0; i < unit.weight.size(); ++i) unit.weight[i] *= unit.weight_scale[i / positions];
  unit.weight_scale.clear();
}

void read_weights(const Safetensors& file, Unit& unit) {
  const std::int64_t size = unit.weights();
  if (size > kLargestTensor) throw FormatError("unit " + unit.name + ": too many weights");
  const std::string name = unit.name + ".weight", bias = unit.name + ".bias";
  const auto dense = file.tensors.find(name);
  unit.weight = dense == file.tensors.end() ? expand(file, unit) : floats(dense->second, name, size);
  unit.bias = floats(tensor(file, bias), bias, unit.out_channels);
  read_scales(file, unit);
}

// One for each channel that a unit makes, all the same or its own. Kernels take a vector for one channel.
void read_slopes(const Safetensors& file, Unit& unit) {
  const auto own = [&](const char* key) {
    const std::string name = unit.name + key;
    return floats(tensor(file, name), name, unit.out.channels);
  };
  const bool vector = unit.out.pixels() == 1 && !unit.fuses();
  if (unit.op == Op::leaky_relu) {
    to_activation(unit, std::vector<float>(static_cast<std::size_t>(unit.out.channels), unit.slope));
  } else if (unit.op == Op::prelu && vector) {
    unit.weight = own(".weight");
  } else if (unit.op == Op::prelu) {
    to_activation(unit, own(".weight"));
  } else if (unit.activation == Activation::leaky) {
    if (vector) throw FormatError("unit " + unit.name + ": takes no slopes, as it makes a vector");
    unit.slopes = own(".slopes");
  }
}

// An attribute that an operation does not have may be there, but must not ask for anything.
void check_attributes(const Unit& unit) {
  const auto refuse = [&](const char* what) { throw FormatError("unit " + unit.name + ": takes no " + what); };
  const bool plain = unit.kernel == Pair{1, 1} && unit.stride == Pair{1, 1} && unit.padding == Pair{0, 0} &&
                     unit.padding_end == Pair{0, 0};
  if (!plain && !is_windowed(unit) && !unit.convolves()) refuse("window");
  if (unit.dilation != Pair{1, 1} && !unit.convolves()) refuse("dilation");
  if (unit.output_padding != Pair{0, 0} && unit.op != Op::conv_transpose2d) refuse("output_padding");
  if (unit.groups != 1 && !unit.convolves() && unit.op != Op::channel_shuffle) refuse("groups");
  if (unit.start != 0 && unit.op != Op::slice) refuse("start");
  if (unit.scale != Pair{1, 1} && !unit.resizes() && unit.op != Op::pixel_shuffle) refuse("scale");
  const bool sized = unit.resizes() && unit.scale == Pair{1, 1} && std::min(unit.size.y, unit.size.x) > 0;
  if (unit.size != Pair{0, 0} && !sized) refuse("size");
  if (unit.align_corners && unit.op != Op::resize_bilinear) refuse("align_corners");
  const bool moves = unit.op == Op::concat || unit.op == Op::flatten || unit.op == Op::global_avg_pool;
  if (unit.activation != Activation::none && (moves || unit.portable() || unit.op == Op::leaky_relu)) refuse("activation");
  if (unit.residual >= 0 && !unit.fuses()) refuse("residual");
}

// Names end up in tables on terminals.
std::string name_of(const Json& entry) {
  const std::string& name = entry.at("name").text("name");
  const auto controls = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), controls)) throw FormatError("the name '" + name + "' holds a control character");
  return name;
}

}  // namespace

void to_activation(Unit& unit, std::vector<float> slopes) {
  unit.op = Op::activation;
  unit.activation = Activation::leaky;
  unit.slopes = std::move(slopes);
}

Unit read_unit(const Json& entry, int known_tensors) {
  Unit unit;
  unit.name = name_of(entry);
  unit.op = look_up(kOps, entry.at("op").text("op"), "operation");
  for (const Json& input : entry.at("inputs").array("inputs"))
    unit.inputs.push_back(static_cast<int>(input.integer("an input", 0, known_tensors - 1)));
  unit.residual = integer(entry, "residual", 0, known_tensors - 1, -1);
  if (const Json* activation = entry.find("activation"))
    unit.activation = look_up(kActivations, activation->text("activation"), "activation");
  unit.out_channels = integer(entry, "out_channels", 1, kLargestSize, 1);
  unit.groups = integer(entry, "groups", 1, kLargestSize, 1);
  unit.kernel = pair(entry, "kernel_size", 1, {1, 1});
  unit.stride = pair(entry, "stride", 1, {1, 1});
  unit.dilation = pair(entry, "dilation", 1, {1, 1});
  unit.output_padding = pair(entry, "output_padding", 0, {0, 0});
  read_padding(entry, unit);
  read_portable(entry, unit);
  read_quantization(entry, unit);
  check_attributes(unit);
  return unit;
}

namespace {

// Adds one unit with its weights. `names` are those of the units before it: two of one name would share its tensors, and each
// hold them anew.
void add_unit(const Safetensors& file, const Json& entry, Model& model, std::set<std::string>& names) {
  Unit unit = read_unit(entry, whole(static_cast<std::int64_t>(model.units.size())) + 1);
  if (!names.insert(unit.name).second) throw FormatError("two units are called " + unit.name);
  try {
    infer_shapes(model, unit);
    if (unit.in.size() > kLargestTensor || unit.out.size() > kLargestTensor)
      throw FormatError("unit " + unit.name + ": its activations are too large");
    if (unit.input_scale > 0 && model.half) throw FormatError("unit " + unit.name + ": has an input_scale in a file of precision float16");
    if (unit.input_scale > 0 && !quantizes(unit)) throw FormatError("unit " + unit.name + ": takes no input_scale");
    if (unit.weighted()) read_weights(file, unit);
    read_slopes(file, unit);
  } catch (const SizeError& error) {
    throw FormatError("unit " + unit.name + ": " + error.what());
  }
  model.units.push_back(std::move(unit));
}

}  // namespace

Model Model::parse(std::span<const std::byte> bytes) {
  const Safetensors file = Safetensors::parse(bytes);
  check_format(file);
  const Json program = Json::parse(required(file, "program"));
  Model model;
  model.input = input_shape(program);
  model.half = precision_of(file) == "float16";
  std::set<std::string> names;
  std::int64_t weights = 0;
  for (const Json& entry : program.at("units").array("units")) {
    add_unit(file, entry, model, names);
    weights += static_cast<std::int64_t>(model.units.back().weight.size());
    if (weights > kLargestModel) throw FormatError("the units hold more than 8 GB of weights");
  }
  model.output = static_cast<int>(program.at("output").integer("output", 0, static_cast<int>(model.units.size())));
  split_transposed(model);
  return model;
}

}  // namespace jcw

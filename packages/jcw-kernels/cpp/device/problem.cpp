// Reading a layer problem, and building the network around it.
#include "device/problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "base/error.hpp"
#include "base/ranges.hpp"
#include "model/json.hpp"
#include "model/shapes.hpp"
#include "model/transposed.hpp"
#include "model/windows.hpp"

namespace jcw {
namespace {

constexpr std::size_t kPool = 1 << 16;

constexpr std::array kActivations = {"relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu"};

bool is_one_of(const std::string& word, const auto& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

int size_of(const Json& problem, const char* key) {
  return static_cast<int>(problem.at(key).integer(key, 1, kLargestSize));
}

double density_of(const Json& problem) {
  const Json* value = problem.find("density");
  if (!value) return 1.0;
  const double* density = std::get_if<double>(&value->value);
  if (!density || *density < 0 || *density > 1) throw FormatError("density is not a number from 0 to 1");
  return *density;
}

// The convolution that runs on the layer's output, null without one.
const Json* second_of(const Json& problem) {
  const Json* then = problem.find("then");
  return then && !std::holds_alternative<std::nullptr_t>(then->value) ? then : nullptr;
}

bool has_residual(const Json& problem) {
  const Json* value = problem.find("residual");
  if (!value) return false;
  const bool* residual = std::get_if<bool>(&value->value);
  if (!residual) throw FormatError("residual is not true or false");
  return *residual;
}

// Random values, repeated from a pool: drawing millions of them would take longer than timing them.
class Weights {
 public:
  Weights() : pool_(kPool) {
    std::normal_distribution<float> normal;
    std::generate(pool_.begin(), pool_.end(), [&] { return normal(random_); });
  }

  // Keeps the share `density` of the groups of four output channels at one position, as
  // jcw_core.network.weight_groups does: rounded, at least one above density 0.
  void fill(Unit& unit, double density) {
    const auto rows = static_cast<std::size_t>(unit.out_channels), positions = static_cast<std::size_t>(unit.positions());
    if (unit.weights() > kLargestTensor) throw FormatError("too many weights");
    unit.bias.assign(rows, 0.5f);
    unit.weight.assign(rows * positions, 0.0f);
    if (density <= 0) return;
    // By channel nothing is pruned; one that is ungrouped, of one channel, is a convolution like any other.
    const bool by_channel = unit.depthwise() && unit.groups > 1;
    const std::vector<bool> kept = keep(divide_up(rows, std::size_t{kGroup}) * positions, by_channel ? 1.0 : density);
    for (std::size_t i = 0; i < unit.weight.size(); ++i)
      if (kept[i / positions / kGroup * positions + i % positions]) unit.weight[i] = pool_[i % kPool];
  }

 private:
  std::vector<bool> keep(std::size_t groups, double density) {
    std::vector<bool> kept(groups, false);
    const auto count = static_cast<std::size_t>(density * static_cast<double>(groups) + 0.5);
    std::fill_n(kept.begin(), std::clamp<std::size_t>(count, 1, groups), true);
    if (count < groups) std::shuffle(kept.begin(), kept.end(), random_);
    return kept;
  }

  std::mt19937 random_{1};
  std::vector<float> pool_;
};

// What a program's header calls the operation. A batch norm has the attributes of a linear layer.
std::string engine_op(const std::string& op) {
  if (op == "activation") throw FormatError("unknown operation 'activation'");
  return is_one_of(op, kActivations) ? "activation"
         : op == "scale"            ? "mul"
         : op == "batch_norm"       ? "linear"
         : op == "unflatten"        ? "flatten"
                                    : op;
}

bool chooses_channels(const std::string& op) {
  return is_one_of(op, std::array{"conv2d", "conv_transpose2d", "linear", "slice"});
}

// Other operations make as many channels as they read, or one for each value.
void check_channels(const Json& problem, const std::string& op, const Shape& in, const Unit& unit) {
  const Json* given = problem.find("out_channels");
  if (op == "unflatten" && in.pixels() != 1) throw FormatError("unflatten reads planes, expected features");
  if (!given || chooses_channels(op)) return;
  const std::int64_t square = op == "pixel_shuffle" ? std::int64_t{unit.scale.y} * unit.scale.x : 1;
  const std::int64_t made = op == "flatten" ? in.size() : in.channels / square;
  if (given->integer("out_channels", 1, kLargestTensor) != made)
    throw FormatError("out_channels is not the " + std::to_string(made) + " that " + op + " makes");
}

// The unit as a program's header would describe it, its inputs left open: the names of the fields are the same.
Unit unit_of(const Json& problem, const std::string& name) {
  const std::string op = problem.at("op").text("op");
  Json::Object entry = {{"name", Json{name}}, {"inputs", Json{Json::Array{}}}, {"op", Json{engine_op(op)}}};
  for (const char* key : {"groups", "kernel_size", "stride", "padding", "dilation", "output_padding", "size"})
    if (const Json* value = problem.find(key)) {
      const bool resizes = op.starts_with("resize_") || op == "pixel_shuffle";
      const bool factor = resizes && key == std::string("stride");
      entry.push_back({factor ? "scale" : key, *value});
    }
  const Json* channels = problem.find("out_channels");
  if (channels && chooses_channels(op)) entry.push_back({"out_channels", *channels});
  const Json* fused = problem.find("activation");
  if (is_one_of(op, kActivations)) {
    if (fused && !fused->text("activation").empty()) throw FormatError(op + " takes no activation");
    entry.push_back({"activation", Json{op}});
  } else if (fused) {
    entry.push_back({"activation", *fused});
  }
  return read_unit(Json{std::move(entry)}, 1);
}

int add(Model& model, Unit unit) {
  infer_shapes(model, unit);
  if (unit.in.size() > kLargestTensor || unit.out.size() > kLargestTensor) throw FormatError("activations are too large");
  model.units.push_back(std::move(unit));
  return static_cast<int>(model.units.size());
}

// Units that make the layer's inputs from the network's; the layer reads planes laid out for it.
std::vector<int> add_sources(Model& model, const std::string& op) {
  Unit copy;
  copy.name = "source";
  copy.inputs = {0};
  std::vector<int> made = {add(model, copy)};
  if (op == "scale") copy.op = Op::global_avg_pool;
  copy.name = "second";
  if (is_one_of(op, std::array{"add", "mul", "concat", "scale"})) made.push_back(add(model, copy));
  return made;
}

// The same weights as whole numbers.
void quantize(Unit& unit) {
  constexpr float kScale = 1.0f / 40;
  for (float& weight : unit.weight) weight = std::clamp(std::nearbyint(weight / kScale), -127.0f, 127.0f);
  unit.weight_scale.assign(static_cast<std::size_t>(unit.out_channels), kScale);
  unit.input_scale = 0.02f;
  unit.zero = 128;
}

bool gains(const Unit& unit, double density) {
  if (is_linear(unit)) return linear_gains_from_numbers(unit.positions(), unit.out_channels, density);
  if (!unit.depthwise()) return gains_from_numbers(unit.kernel, density * unit.in.channels);
  return depthwise_gains_from_numbers(unit.kernel, unit.stride, clamps(unit.activation), unit.out.width);
}

int add_layer(Model& model, Unit unit, double density, Weights& weights, bool int8) {
  const int made = add(model, std::move(unit));
  Unit& last = model.units.back();
  if (last.weighted()) weights.fill(last, density);
  const std::vector<float> slopes(static_cast<std::size_t>(last.out.channels), 0.25f);
  if (last.op == Op::leaky_relu || (last.op == Op::prelu && last.out.pixels() > 1)) to_activation(last, slopes);
  if (last.op == Op::prelu) last.weight = slopes;
  const bool vector = last.op != Op::activation && !last.fuses() && last.out.pixels() == 1;
  if (last.activation == Activation::leaky && vector) throw FormatError("slopes after an operation that makes a vector");
  if (last.activation == Activation::leaky) last.slopes = slopes;
  if (int8 && quantizes(last) && gains(last, density)) quantize(last);
  return made;
}

// A layer without any weight that makes the residual of `last`, a tensor in the output's shape.
int add_other(Model& model, Unit unit, const Unit& last, Weights& weights) {
  unit.name = "other";
  unit.activation = Activation::none;
  unit.kernel = last.kernel, unit.stride = last.stride, unit.padding = last.padding, unit.padding_end = last.padding_end;
  unit.dilation = last.dilation;
  return add_layer(model, std::move(unit), 0.0, weights, false);
}

// What jcw_core.network.problem.LayerProblem demands of two convolutions in one unit.
void check_second(const Json& problem, const Unit& first, const Json& then, const Unit& second) {
  const bool pointwise = first.op == Op::conv2d && first.groups == 1 && first.taps() == 1 && first.stride == Pair{1, 1} &&
                         first.padding == Pair{0, 0} && first.padding_end == Pair{0, 0} && !has_residual(problem);
  if (!pointwise) throw FormatError("then follows a layer that is not a 1 x 1 convolution of stride 1 without padding and residual");
  const bool depthwise = second.op == Op::conv2d && second.groups == second.out_channels && second.taps() > 1;
  if (!depthwise || density_of(then) != 1 || second_of(then))
    throw FormatError("then is not a depthwise convolution, not pruned, with a window above 1 x 1 and nothing after it");
  const Shape reads = {size_of(then, "in_channels"), size_of(then, "in_height"), size_of(then, "in_width")};
  if (reads.channels != second.groups || reads != Shape{first.out_channels, size_of(problem, "in_height"), size_of(problem, "in_width")})
    throw FormatError("then does not read what the layer makes");
}

Layer build(const Json& problem, const std::string& precision) {
  problem.object("a layer problem");
  const std::string op = problem.at("op").text("op");
  const bool int8 = precision == "int8";
  Layer layer;
  Model& model = layer.model;
  model.half = precision == "float16";
  model.input = {size_of(problem, "in_channels"), size_of(problem, "in_height"), size_of(problem, "in_width")};
  Unit unit = unit_of(problem, "layer");
  check_channels(problem, op, model.input, unit);
  if (op == "channel_shuffle" && model.input.channels % 2 == 0) unit.groups = 2;
  if (op == "concat") model.input.channels = (model.input.channels + 1) / 2;
  unit.inputs = add_sources(model, op);
  if (op == "batch_norm") {
    unit.op = Op::conv2d;
    unit.out_channels = unit.groups = model.input.channels;
  }
  const Json* then = second_of(problem);
  Unit second = then ? unit_of(*then, "then") : Unit{};
  if (then) check_second(problem, unit, *then, second);
  Weights weights;
  if (has_residual(then ? *then : problem)) {
    if (!unit.fuses()) throw FormatError(op + " takes no residual");
    Unit& last = then ? second : unit;
    last.residual = add_other(model, unit, last, weights);
  }
  layer.unit = static_cast<int>(model.units.size());
  model.output = add_layer(model, std::move(unit), density_of(problem), weights, int8);
  if (then) {
    second.inputs = {model.output};
    model.output = add_layer(model, std::move(second), 1.0, weights, int8);
  }
  split_transposed(model);
  return layer;
}

}  // namespace

std::int64_t Layer::weight_bytes() const {
  std::int64_t kept = 0;
  for (std::size_t i = static_cast<std::size_t>(unit); i < model.units.size(); ++i) {
    const std::vector<float>& weight = model.units[i].weight;
    kept += static_cast<std::int64_t>(weight.size()) - std::count(weight.begin(), weight.end(), 0.0f);
  }
  return 8 * kept;  // each with its share of an offset, and room for packing
}

Layer parse_layer(const std::string& line, const std::string& precision) { return build(Json::parse(line), precision); }

}  // namespace jcw

#include "device/problem.hpp"

#include <algorithm>
#include <random>
#include <sstream>

#include "core/error.hpp"
#include "core/shapes.hpp"

namespace jcw {
namespace {

constexpr int kLargest = 1 << 16;
constexpr int kGroup = 4;

bool sound(const Problem& p) {
  for (const int size : {p.in.channels, p.in.height, p.in.width, p.out_channels, p.groups, p.kernel.y, p.kernel.x,
                         p.stride.y, p.stride.x, p.padding.y + 1, p.padding.x + 1})
    if (size < 1 || size > kLargest) return false;
  return p.density >= 0 && p.density <= 1;
}

// Zeroes all but the share `density` of the groups of four output channels at one position.
void prune(Unit& unit, double density, std::mt19937& random) {
  const auto positions = static_cast<std::size_t>(unit.positions());
  const std::size_t rows = static_cast<std::size_t>(unit.out_channels), groups = (rows + kGroup - 1) / kGroup;
  std::vector<bool> kept(groups * positions, false);
  std::fill_n(kept.begin(), static_cast<std::size_t>(density * static_cast<double>(kept.size()) + 0.5), true);
  std::shuffle(kept.begin(), kept.end(), random);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t p = 0; p < positions; ++p)
      if (!kept[row / kGroup * positions + p]) unit.weight[row * positions + p] = 0.0f;
}

}  // namespace

Problem parse_problem(const std::string& line, int number) {
  Problem p;
  std::istringstream words(line);
  words >> p.in.channels >> p.in.height >> p.in.width >> p.out_channels >> p.kernel.y >> p.kernel.x >> p.stride.y >>
      p.stride.x >> p.padding.y >> p.padding.x >> p.groups >> p.density;
  if (!words || !sound(p))
    throw FormatError("line " + std::to_string(number) + ": expected channels height width out_channels kernel_y "
                      "kernel_x stride_y stride_x padding_y padding_x groups density, found '" + line + "'");
  return p;
}

Model problem_model(const Problem& problem) {
  Model model;
  model.input = problem.in;
  Unit source;
  source.name = "source";
  source.inputs = {0};
  infer_shapes(model, source);
  model.units.push_back(source);
  Unit layer;
  layer.name = "layer";
  layer.op = Op::conv2d;
  layer.inputs = {1};
  layer.out_channels = problem.out_channels;
  layer.groups = problem.groups;
  layer.kernel = problem.kernel;
  layer.stride = problem.stride;
  layer.padding = problem.padding;
  infer_shapes(model, layer);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  layer.bias.resize(static_cast<std::size_t>(layer.out_channels), 0.5f);
  layer.weight.resize(static_cast<std::size_t>(layer.out_channels * layer.positions()));
  for (float& weight : layer.weight) weight = normal(random);
  if (!layer.depthwise()) prune(layer, problem.density, random);
  model.units.push_back(layer);
  model.output = 2;
  return model;
}

}  // namespace jcw

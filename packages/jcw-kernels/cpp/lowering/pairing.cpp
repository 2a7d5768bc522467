// Finding the units that run together.
#include "lowering/pairing.hpp"

#include "lowering/access.hpp"
#include "model/windows.hpp"

namespace jcw {
namespace {

// Input channels of a 1 x 1 convolution that runs together with a depthwise one. Few of its output channels are computed at
// a time, so more inputs, read anew for each few, cost more than is saved. So do depthwise ones of stride 1, which
// multiply for longer than they wait for memory. Measured.
constexpr int kMostPairInputs = 32;

// How many operands of units each tensor is, and once more where it is the output.
std::vector<int> readers_of(const Model& model) {
  std::vector<int> count(model.units.size() + 1, 0);
  const auto read = [&](int tensor) { ++count[static_cast<std::size_t>(tensor)]; };
  for (const Unit& u : model.units) {
    for (const int input : u.inputs) read(input);
    if (u.residual >= 0) read(u.residual);
  }
  read(model.output);
  return count;
}

bool can_lead(const Unit& u) {
  return u.op == Op::conv2d && u.groups == 1 && u.taps() == 1 && u.stride == Pair{1, 1} && u.padding == Pair{0, 0} &&
         u.padding_end == Pair{0, 0} &&
         u.residual < 0 && u.in.channels <= kMostPairInputs;
}

bool can_follow(const Model& model, const Unit& u) {
  return u.depthwise() && !u.quantized() && u.residual < 0 && !is_linear(u) && access_of(model, u) == Access::by_two &&
         u.padding.y < u.kernel.y;
}

}  // namespace

std::vector<bool> pairs_with_next(const Model& model) {
  const std::vector<int> readers = readers_of(model);
  std::vector<bool> pairs(model.units.size(), false);
  for (std::size_t i = 0; i + 1 < model.units.size(); ++i) {
    const Unit& next = model.units[i + 1];
    // Tensor 0 is the image; unit i writes tensor i + 1.
    const bool alone = readers[i + 1] == 1 && next.inputs[0] == static_cast<int>(i) + 1;
    pairs[i] = alone && can_lead(model.units[i]) && can_follow(model, next);
  }
  return pairs;
}

}  // namespace jcw

// Choosing how a windowed unit reads its input.
#include "lowering/access.hpp"

#include "model/windows.hpp"

namespace jcw {

Access access_of(const Model& model, const Unit& u) {
  const int from = u.inputs[0];
  if (u.op == Op::conv2d && !u.depthwise() && u.stride != Pair{1, 1}) return u.quantized() ? Access::phases : Access::bands;
  if (from == 0 || one_pixel(u.in)) return Access::phases;
  // Padding is zero, which only is a neutral maximum among values that are not negative.
  if (u.op == Op::max_pool && !never_negative(model.units[static_cast<std::size_t>(from - 1)].activation))
    return Access::phases;
  if (u.stride == Pair{1, 1}) return one_pixel(u.out) ? Access::phases : Access::flat;
  const bool plain = is_pool(u) || u.depthwise();
  const bool known = u.dilation == Pair{1, 1} && (u.kernel == Pair{3, 3} || u.kernel == Pair{5, 5});
  return plain && known && u.stride == Pair{2, 2} ? Access::by_two : Access::phases;
}

}  // namespace jcw

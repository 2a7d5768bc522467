// What the makers of steps share: addresses of tensors, pixel masks, ways to split work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include "steps/pack.hpp"
#include "steps/steps.hpp"

namespace jcw {

// What one thread computes of a convolution.
struct Share {
  Range pixels, groups;
};

// With `wide` units of pixels or more for each thread, these are split, so that weights are shared; else the groups of
// output channels.
inline Share share_of(int pixels, int groups, int wide, int part, int parts) {
  if (pixels >= wide * parts) return {slice(pixels, part, parts), {0, groups}};
  return {{0, pixels}, slice(groups, part, parts)};
}

// Planes of a tensor as kernels address them.
struct View {
  void* data;
  std::ptrdiff_t plane, row;
};

// The pixel, of `bytes`, that lies so many after another.
template <class Void>
Void* after(Void* pixel, std::int64_t count, int bytes) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  return static_cast<Byte*>(pixel) + static_cast<std::ptrdiff_t>(count) * bytes;
}

class Binder {
 public:
  explicit Binder(const Bound& bound) : bound_(bound) {}

  const Bound& bound() const { return bound_; }
  const Kernels& kernels() const { return *bound_.kernels; }
  int pixel_bytes() const { return kernels().pixel_bytes; }
  const QuantizedKernels& quantized() const { return *bound_.quantized; }
  const Unit& unit(const Operation& o) const { return bound_.model->units[static_cast<std::size_t>(o.unit)]; }
  const Tensor& tensor(int t) const { return bound_.lowered->tensors[static_cast<std::size_t>(t)]; }

  // Whether it computes with whole numbers that lie as such.
  bool in_numbers(const Operation& o) const { return unit(o).quantized() && !tensor(o.reads[0]).holds_floats(); }

  // External tensors have no address yet: data is null.
  View view(int t) const {
    const Tensor& info = tensor(t);
    const std::int64_t offset = bound_.plan->offset[static_cast<std::size_t>(t)];
    void* data = info.external ? nullptr : bound_.memory + offset;
    if (info.external || info.flat) return {data, static_cast<std::ptrdiff_t>(info.shape.pixels()), info.shape.width};
    return {data, static_cast<std::ptrdiff_t>(info.layout.plane), static_cast<std::ptrdiff_t>(info.layout.row)};
  }

  // All ones where a pixel of the layout is real, one word per flat pixel, and zeros for a block more.
  std::shared_ptr<std::vector<std::uint32_t>> mask(const Layout& layout) const {
    auto words = std::make_shared<std::vector<std::uint32_t>>(static_cast<std::size_t>((layout.blocks() + 1) * layout.block), 0u);
    for (std::int64_t i = 0; i < layout.run(); ++i)
      if (i % layout.row < layout.width) (*words)[static_cast<std::size_t>(i)] = ~0u;
    return words;
  }

  // Of floats that `reader` takes as whole numbers, before an activation that only clamps.
  Rounding rounding(const Unit& reader, Activation activation) const {
    const float inverse = 1.0f / reader.input_scale;
    float low = static_cast<float>(-reader.zero), high = static_cast<float>(255 - reader.zero);
    if (activation != Activation::none) low = std::max(low, 0.0f);
    if (activation == Activation::relu6) high = std::min(high, 6.0f * inverse);
    return {inverse, low, high, reader.zero - quantized().offset};
  }

  Target target(const Operation& o, const Layout& layout, int channels, const std::uint32_t* mask,
                const float* bias) const {
    const Unit& u = unit(o);
    Target to{};
    if (o.write != o.numbers) to.out = view(o.write).data;
    if (o.numbers >= 0) {
      const Unit& reader = bound_.model->units[static_cast<std::size_t>(o.reader)];
      to.numbers = {view(o.numbers).data, view(o.numbers).plane, tensor(o.numbers).bytes, rounding(reader, u.activation)};
    }
    to.out_plane = static_cast<std::ptrdiff_t>(layout.plane);
    to.residual = o.residual >= 0 ? view(o.residual).data : nullptr;
    to.residual_plane = o.residual >= 0 ? static_cast<std::ptrdiff_t>(tensor(o.residual).layout.plane) : 0;
    to.bias = bias;
    to.mask = mask;
    to.channels = channels;
    to.activation = u.activation;
    to.slopes = slopes(u);
    return to;
  }

  // Of activations that have them, else null.
  const float* slopes(const Unit& unit) const {
    std::vector<float> values = unit.slopes;
    return values.empty() ? nullptr : keep(values);
  }

  // Where steps read `values` from now on; see Store.
  template <class T>
  const T* keep(std::vector<T>& values) const {
    return bound_.store->keep(values);
  }

  // Offset from an output pixel to the input pixel under a kernel tap, in phases that lie as `in` says.
  Address address(const Operation& o, const Layout& in) const;

  // Throws std::logic_error unless every pixel that the offsets reach lies in the input's buffer.
  void check_reach(const Operation& o, const std::vector<std::int32_t>& offsets, std::int64_t first_plane) const;

 private:
  Bound bound_;
};

Step make_convolution(const Binder& binder, const Operation& o);
Step make_narrow(const Binder& binder, const Operation& o);  // the image in half precision
Step make_quantize(const Binder& binder, const Operation& o);  // floats to whole numbers
Step make_quantized(const Binder& binder, const Operation& o, double density);  // a convolution of these, without density and macs
Step make_quantized_windowed(const Binder& binder, const Operation& o);  // a depthwise one of these, without macs
Step make_tiled_convolution(const Binder& binder, const Operation& o);  // with Step::groupwise
// Whether a layer with this share of kept weights is to be made by make_winograd. Throws UsageError when the
// environment variable JCW_WINOGRAD is neither "always" nor "never".
bool winograd_pays(const Binder& binder, const Operation& o, double density);
Step make_winograd(const Binder& binder, const Operation& o);  // without density and macs
// The same for windows of 7 x 7 with a stride of two.
bool winograd_rows_pays(const Binder& binder, const Operation& o, double density);
Step make_winograd_rows(const Binder& binder, const Operation& o);  // without density and macs
// What make_rows would take of the time of the dense tile.
double rows_cost(const Binder& binder, const Operation& o);
Step make_rows(const Binder& binder, const Operation& o);  // without density and macs
Step make_windowed(const Binder& binder, const Operation& o);
// Computes rows of some channels of a depthwise convolution or pooling that is not read by offsets, from planes that lie
// `plane` pixels apart; channel 0 and pixel 0 would lie at `in`. Rows of these planes and their padding lie as `in` says.
using FromPlanes = std::function<void(const void* in, std::ptrdiff_t plane, Range rows, Range channels)>;
FromPlanes from_planes(const Binder& binder, const Operation& o, const Layout& in);
Step make_pair(const Binder& binder, const Operation& o);  // o.first and o, group by group of channels
Step make_linear(const Binder& binder, const Operation& o);
Step make_elementwise(const Binder& binder, const Operation& o);
Step make_phases(const Binder& binder, const Operation& o);  // relayout with a stride
Step make_copies(const Binder& binder, const Operation& o);  // relayout, concat, flatten
Step make_portable(const Binder& binder, const Operation& o);  // what has no kernels, by plain loops
Step make_global_mean(const Binder& binder, const Operation& o);

}  // namespace jcw

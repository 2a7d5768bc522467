// Sizes of bands, and splitting the input of one.
#include "steps/bands.hpp"

#include <algorithm>

#include "base/caches.hpp"

namespace jcw {
namespace {

// Of the second-level cache, what phases of a band may take. Each band reads all weights again, so smaller ones were slower.
constexpr double kBandShare = 0.62;

// Rows before and after an output row at which the taps of a row phase read.
Range shifts(const Unit& unit, int phase) {
  Range all{unit.span().y, -unit.span().y - unit.padding.y};
  for (int tap = 0; tap < unit.kernel.y; ++tap) {
    const Tap at = Tap::of(tap * unit.dilation.y, unit.padding.y, unit.stride.y);
    if (at.phase == phase) all = {std::min(all.begin, at.shift), std::max(all.end, at.shift)};
  }
  return all;
}

}  // namespace

std::vector<SplitPhase> split_phases(const Operation& o, const Shape& in) {
  std::vector<SplitPhase> all;
  for (std::size_t p = 0; p < o.phases.size(); ++p) {
    const Phase phase = o.phases[p];
    const bool pair = o.stride.x == 2 && phase.x == 0 && p + 1 < o.phases.size() && o.phases[p + 1] == Phase{phase.y, 1};
    const int rows = divide_up(in.height - phase.y, o.stride.y);
    all.push_back({phase.y, phase.x, rows, static_cast<int>(p), 0, 0, pair});
    p += pair;
  }
  return all;
}

Split split_of(const Binder& binder, const Operation& o) {
  const View in = binder.view(o.reads[0]);
  Split call{};
  call.in = in.data;
  call.in_plane = in.plane;
  call.in_row = in.row;
  call.width = binder.tensor(o.reads[0]).shape.width;
  call.stride_y = o.stride.y;
  call.stride_x = o.stride.x;
  call.planes = static_cast<int>(o.phases.size());
  return call;
}

std::int64_t readable(const Tensor& tensor) {
  return tensor.external || tensor.flat ? tensor.shape.size() : tensor.layout.floats() - tensor.layout.lead();
}

Bands::Bands(const Binder& binder, const Operation& o)
    : phases_(split_phases(o, binder.unit(o).in)),
      call_(split_of(binder, o)),
      readable_(readable(binder.tensor(o.reads[0]))) {
  const Unit& unit = binder.unit(o);
  const Layout& out = binder.tensor(o.write).layout;
  for (SplitPhase& phase : phases_) {
    const Range shift = shifts(unit, phase.y);
    phase.low = shift.begin;
    phase.high = shift.end;
    call_.low = std::min(call_.low, phase.low);
  }
  row_ = out.row;
  block_ = out.block;
  height_ = out.height;
  channels_ = unit.in.channels;
  pixel_bytes_ = binder.pixel_bytes();
  call_.lead = margin_of(unit).columns;
  choose_size(out, unit);
  call_.count = static_cast<int>(phases_.size());
  call_.out_plane = static_cast<std::ptrdiff_t>(layout_.plane);
  call_.out_row = static_cast<std::ptrdiff_t>(row_);
  kernel_ = binder.kernels().split_phases;
  image_ = binder.bound().image;
  scratch_ = binder.bound().scratch;
  binder.bound().scratch->reserve(floats_of(layout_.floats(), pixel_bytes_));
}

void Bands::choose_size(const Layout& out, const Unit& unit) {
  const double bytes = static_cast<double>(pixel_bytes_) * block_ * channels_ * call_.planes;
  const int most = std::clamp(static_cast<int>(kBandShare * second_level_cache() / bytes), 1, out.blocks());
  blocks_ = divide_up(out.blocks(), divide_up(out.blocks(), most));
  int high = 0;
  for (const SplitPhase& phase : phases_) high = std::max(high, phase.high);
  rows_ = std::min(whole(divide_up(std::int64_t{blocks_} * block_ - 1, row_) + 1), height_);
  // A band begins within its first row, and ends where the output does.
  pixels_ = std::min(std::int64_t{blocks_} * block_ + row_ - 1, std::int64_t{out.blocks()} * block_);
  const int width = divide_up(unit.in.width, unit.stride.x);
  layout_ = Layout::padded(block_, channels_ * call_.planes, rows_ + high - call_.low, width, row_, 0,
                           call_.lead);
}

Range Bands::rows(Range blocks) const {
  const std::int64_t first = blocks.begin * block_ / row_, last = (blocks.end * block_ - 1) / row_;
  return {static_cast<int>(first), static_cast<int>(std::min<std::int64_t>(last + 1, height_))};
}

const void* Bands::split(Range rows, int part) const {
  void* const out = after<void>(scratch_->of(part), layout_.lead(), pixel_bytes_);
  Split call = call_;
  if (!call.in) call.in = *image_;
  call.end = after(call.in, readable_, pixel_bytes_);
  call.out = out;
  call.phases = phases_.data();
  kernel_(call, rows.begin, rows.end, 0, channels_);
  return after(out, -(rows.begin + call.low) * row_, pixel_bytes_);
}

void Bands::check_reach(const Unit& unit, const std::vector<std::int32_t>& offsets, std::int64_t columns) const {
  const std::int64_t pixels = std::max(pixels_, (rows_ - 1) * row_ + columns);
  for (const std::int32_t offset : offsets) {
    const std::int64_t first = layout_.lead() + offset - call_.low * row_;
    if (first < 0 || first + pixels > layout_.floats())
      throw std::logic_error("unit " + unit.name + " reads out of bounds");
  }
}

}  // namespace jcw

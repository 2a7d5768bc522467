// Bands of the input of a strided convolution, split into stride phases: one band of output pixels at a time, so that it
// stays in cache.
#pragma once

#include <vector>

#include "steps/binder.hpp"

namespace jcw {

// The phases that an operation reads its input in, without rows beyond those of the output.
std::vector<SplitPhase> split_phases(const Operation& o, const Shape& in);

// The split of o.reads[0] into o.phases, without phases, output and padding.
Split split_of(const Binder& binder, const Operation& o);

// Pixels that may be read from a tensor's first one on.
std::int64_t readable(const Tensor& tensor);

class Bands {
 public:
  // Reserves scratch memory.
  Bands(const Binder& binder, const Operation& o);

  // Of the phases of the largest band.
  const Layout& layout() const { return layout_; }

  // Throws std::logic_error unless every pixel that the offsets reach lies in the scratch memory, and `columns` of each row.
  void check_reach(const Unit& unit, const std::vector<std::int32_t>& offsets, std::int64_t columns = 0) const;

  // Calls body(band, in) for bands of `blocks` in order: `in` is where kernels take output pixel 0 to meet its input.
  template <class Body>
  void run(Range blocks, int part, const Body& body) const {
    in_bands(blocks, blocks_, [&](Range band) { body(band, split(rows(band), part)); });
  }

  // The same for bands of rows of the output.
  template <class Body>
  void run_rows(Range rows, int part, const Body& body) const {
    in_bands(rows, rows_, [&](Range band) { body(band, split(band, part)); });
  }

 private:
  const void* split(Range rows, int part) const;
  Range rows(Range blocks) const;  // that hold them
  void choose_size(const Layout& out, const Unit& unit);

  Layout layout_;
  std::vector<SplitPhase> phases_;
  Split call_{};
  std::int64_t readable_ = 0;  // pixels from call_.in on
  std::int64_t row_ = 1;
  int height_ = 0, channels_ = 0, pixel_bytes_ = 0, block_ = kBlock;
  int blocks_ = 1, rows_ = 1;  // of the largest band
  std::int64_t pixels_ = 0;    // from the begin of its first row to its end
  void (*kernel_)(const Split&, int, int, int, int) = nullptr;
  const Scratch* scratch_ = nullptr;
  const float* const* image_ = nullptr;
};

}  // namespace jcw

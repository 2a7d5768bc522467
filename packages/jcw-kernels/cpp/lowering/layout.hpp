// How a tensor lies in memory: planes of flat rows that share their padding.
#pragma once

#include <cstdint>
#include <string>

#include "base/checked.hpp"
#include "base/ranges.hpp"
#include "model/model.hpp"

namespace jcw {

// Floats that take the memory of as many pixels of so many bytes.
inline std::int64_t floats_of(std::int64_t pixels, int bytes) { return divide_up(times(pixels, bytes), std::int64_t{sizeof(float)}); }

inline std::int64_t whole_blocks(std::int64_t pixels, int block = kBlock) { return divide_up(pixels, block) * block; }

// Rows are `row` floats apart; columns from `width` on are zero and pad the row to the left and the
// right at once. `gap` floats before and after each plane are never written but with zeros. `tail` more lie behind the
// last one: the last pixels of a run are read under all taps at once, even those that only count at the begin of a row.
struct Layout {
  int planes = 0, height = 1, width = 1;
  std::int64_t row = 1, gap = 0, plane = 1, tail = 0;
  int block = kBlock;  // pixels that kernels compute at once

  std::int64_t run() const { return times(height, row); }  // flat pixels of one plane
  int blocks() const { return whole(divide_up(run(), block)); }
  std::int64_t lead() const { return whole_blocks(gap, block); }
  std::int64_t floats() const { return plus(lead() + gap + tail + 5 * block, times(planes, plane)); }

  // Tensors with the same key may take turns in one buffer: their zeros are in the same places.
  std::string key() const;

  // One value per channel, without gaps: what linear layers read and write.
  static Layout flat(int block, std::int64_t size);
  // Rows with at least `pad_columns` zeros between them and `pad_rows` rows of zeros around each plane.
  static Layout padded(int block, int planes, int height, int width, std::int64_t row, int pad_rows, int pad_columns);
};

}  // namespace jcw

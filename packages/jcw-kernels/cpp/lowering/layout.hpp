// How a tensor lies in memory: planes of flat rows that share their padding.
#pragma once

#include <cstdint>
#include <string>

#include "model/model.hpp"

namespace jcw {

// Rows are `row` floats apart; columns from `width` on are zero and pad the row to the left and the
// right at once. `gap` floats before and after each plane are never written but with zeros.
struct Layout {
  int planes = 0, height = 1, width = 1;
  std::int64_t row = 1, gap = 0, plane = 1;

  std::int64_t run() const { return height * row; }  // flat pixels of one plane
  int blocks() const { return static_cast<int>((run() + kBlock - 1) / kBlock); }
  std::int64_t lead() const { return (gap + kBlock - 1) / kBlock * kBlock; }
  std::int64_t floats() const { return lead() + planes * plane + gap + 5 * kBlock; }

  // Tensors with the same key may take turns in one buffer: their zeros are in the same places.
  std::string key() const;

  // One value per channel, without gaps: what linear layers read and write.
  static Layout flat(std::int64_t size);
  // Rows with at least `pad_columns` zeros between them and `pad_rows` rows of zeros around each plane.
  static Layout padded(int planes, int height, int width, std::int64_t row, int pad_rows, int pad_columns);
};

}  // namespace jcw

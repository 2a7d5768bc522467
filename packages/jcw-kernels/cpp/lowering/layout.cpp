// Sizes of layouts.
#include "lowering/layout.hpp"

#include <algorithm>

namespace jcw {

std::string Layout::key() const {
  std::string text;
  for (const std::int64_t part : {std::int64_t{height}, std::int64_t{width}, row, gap, plane})
    text += std::to_string(part) + ' ';
  return text;
}

Layout Layout::flat(std::int64_t size) {
  Layout layout;
  layout.planes = 1;
  layout.width = whole(size);
  layout.row = size;
  layout.plane = whole_blocks(size);
  return layout;
}

Layout Layout::padded(int planes, int height, int width, std::int64_t row, int pad_rows, int pad_columns) {
  Layout layout;
  layout.planes = planes;
  layout.height = height;
  layout.width = width;
  layout.row = row;
  layout.gap = std::max<std::int64_t>(plus(times(pad_rows, row), pad_columns), kBlock);
  layout.tail = row;
  const std::int64_t blocks = layout.blocks() + divide_up(layout.gap, kBlock);
  // An odd number of cache lines keeps planes from meeting in the same cache sets.
  layout.plane = (blocks | 1) * kBlock;
  return layout;
}

}  // namespace jcw

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

Layout Layout::flat(int block, std::int64_t size) {
  Layout layout;
  layout.block = block;
  layout.planes = 1;
  layout.width = whole(size);
  layout.row = size;
  layout.plane = whole_blocks(size, block);
  return layout;
}

Layout Layout::padded(int block, int planes, int height, int width, std::int64_t row, int pad_rows, int pad_columns) {
  Layout layout;
  layout.block = block;
  layout.planes = planes;
  layout.height = height;
  layout.width = width;
  layout.row = row;
  layout.gap = std::max<std::int64_t>(plus(times(pad_rows, row), pad_columns), block);
  layout.tail = row;
  const std::int64_t blocks = layout.blocks() + divide_up(layout.gap, block);
  // An odd number of cache lines keeps planes from meeting in the same cache sets.
  layout.plane = (blocks | 1) * block;
  return layout;
}

}  // namespace jcw

// Half-open ranges, and how work is cut into them.
#pragma once

#include <cstdint>

namespace jcw {

struct Range {
  int begin, end;

  int size() const { return end - begin; }
};

// How many of `step` it takes for `count`, neither of which is negative.
template <class Count, class Step>
constexpr auto divide_up(Count count, Step step) { return (count + step - 1) / step; }

// The part with this number of `count` things in `parts` parts, as equal as can be.
inline Range slice(int count, int part, int parts) {
  const auto edge = [&](int p) { return static_cast<int>(std::int64_t{count} * p / parts); };
  return {edge(part), edge(part + 1)};
}

// Calls body(band) for bands of at most `most` and of equal size, in order.
template <class Body>
void in_bands(Range all, int most, const Body& body) {
  const int bands = divide_up(all.size(), most);
  for (int i = 0; i < bands; ++i) {
    const Range band = slice(all.size(), i, bands);
    body(Range{all.begin + band.begin, all.begin + band.end});
  }
}

}  // namespace jcw

// Sums of many products in half precision: of parts, several of which are added up before they join a sum of floats. So an error
// grows with the products of a part and not with all of them. A sum of n products w x is off by at most
//     (min(n, kHalfTerms) + kHalfParts + 1) u sum |w x|,  u = 2^-11
// where nothing is beyond 65504, and by 2^-25 for each product below 2^-14.
#pragma once

#include "tile.inl"

namespace {

// 3 % of a sum at worst, but about its last bit where errors are to both sides. What is added to sums takes less than a tenth of
// the time of their products; floats alone would take as long for a few hundred products as those gain.
constexpr int kHalfTerms = 64, kHalfParts = 4;

template <int R, int N, class Body>
JCW_INLINE void each_vector(const Body& body) {
  JCW_UNROLL
  for (int r = 0; r < R; ++r) {
    JCW_UNROLL
    for (int n = 0; n < N; ++n) body(r, n);
  }
}

template <int R, int N>
struct WideTile {
  Wide<Isa> sum[R][N];

  JCW_INLINE void add(const Tile<R, N>& tile, bool first) {
    each_vector<R, N>([&](int r, int n) {
      Wide<Isa> wide = widened<Isa>(tile.sum[r][n]);
      for (int i = 0; i < wide.count; ++i) sum[r][n].part[i] = first ? wide.part[i] : wide.part[i] + sum[r][n].part[i];
    });
  }

  JCW_INLINE void narrow(Tile<R, N>& tile) const {
    each_vector<R, N>([&](int r, int n) { tile.sum[r][n] = narrowed<Isa>(sum[r][n]); });
  }
};

// Calls body(tile, first, count), which adds `count` products to the tile, until all are added.
template <int R, int N, class Body>
JCW_INLINE void in_parts(Tile<R, N>& tile, int count, const Body& body) {
  if (!kHalf || count <= kHalfTerms) return body(tile, 0, count);
  const int parts = (count + kHalfTerms - 1) / kHalfTerms, most = (count + parts - 1) / parts;
  Tile<R, N> some;
  WideTile<R, N> all;
  for (int part = 0; part < parts; ++part) {
    body(tile, part * most, smaller(most, count - part * most));
    const bool last = part + 1 == parts;
    if (part % kHalfParts) each_vector<R, N>([&](int r, int n) { tile.sum[r][n] = tile.sum[r][n] + some.sum[r][n]; });
    if (last && parts <= kHalfParts) return;
    if (last || (part + 1) % kHalfParts == 0)
      all.add(tile, part < kHalfParts);
    else
      some = tile;
    each_vector<R, N>([&](int r, int n) { tile.sum[r][n] = Isa::set(0.0f); });
  }
  all.narrow(tile);
}

}  // namespace

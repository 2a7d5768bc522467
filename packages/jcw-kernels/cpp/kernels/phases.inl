// Rows of planes split into their stride phases, whole vectors at a time.
#pragma once

#include <array>

#include "planes.inl"

namespace {

using jcw::Split;
using jcw::SplitPhase;

// All ones for the first `count` lanes of a vector.
JCW_INLINE auto first_lanes(int count) {
  static constexpr auto edge = [] {
    std::array<std::uint32_t, 2 * Isa::width> words{};
    for (int i = 0; i < Isa::width; ++i) words[static_cast<std::size_t>(i)] = ~0u;
    return words;
  }();
  return Isa::mask(edge.data() + Isa::width - (count < 0 ? 0 : smaller(count, Isa::width)));
}

// The pixels from `in` to `end`, fewer than two vectors, and what lies behind them without a meaning.
JCW_INLINE void load_last_pair(const float* in, const float* end, vec& even, vec& odd) {
  if (end - in >= 2 * Isa::width) return Isa::load_pair(in, even, odd);
  float pixels[2 * Isa::width] = {};
  for (int i = 0; in + i < end; ++i) pixels[i] = in[i];
  Isa::load_pair(pixels, even, odd);
}

// Pixels at even and, where wanted, at odd places; zeros from there to the end of the row, and over the start of the
// next, which is written after this one.
template <bool both>
JCW_INLINE void split_row(float* even, float* odd, const float* in, int width, int row, const float* end) {
  vec evens, odds;
  int x = 0;
  for (; 2 * (x + Isa::width) <= width; x += Isa::width) {
    Isa::load_pair(in + 2 * x, evens, odds);
    Isa::store(even + x, evens);
    if constexpr (both) Isa::store(odd + x, odds);
  }
  if (2 * x < width) {
    load_last_pair(in + 2 * x, end, evens, odds);
    Isa::store(even + x, Isa::keep(evens, first_lanes((width + 1) / 2 - x)));
    if constexpr (both) Isa::store(odd + x, Isa::keep(odds, first_lanes(width / 2 - x)));
    x += Isa::width;
  }
  for (; x < row; x += Isa::width) {
    Isa::store(even + x, Isa::set(0.0f));
    if constexpr (both) Isa::store(odd + x, Isa::set(0.0f));
  }
}

JCW_INLINE void zero_row(float* out, int row) {
  for (int x = 0; x < row; x += Isa::width) Isa::store(out + x, Isa::set(0.0f));
}

struct PhaseRows {
  const Split& split;
  int row_begin, row_end;

  JCW_INLINE void one(const float* in, float* even, float* odd, const SplitPhase& phase) const {
    const int row = static_cast<int>(split.out_row);
    if (split.stride_x != 2) {
      const int columns = (split.width - phase.x + split.stride_x - 1) / split.stride_x;
      for (int x = 0; x < columns; ++x) even[x] = in[x * split.stride_x];
      for (int x = columns; x < row; ++x) even[x] = 0.0f;
    } else if (odd) {
      split_row<true>(even, odd, in, split.width, row, split.end);
    } else {
      split_row<false>(even, odd, in, split.width - phase.x, row, split.end);
    }
  }

  JCW_INLINE void run(const float* in, float* plane, const SplitPhase& phase) const {
    plane += (phase.low - split.low) * split.out_row;
    float* const odd_plane = phase.pair ? plane + split.out_plane : nullptr;
    for (int x = 1; x <= split.lead; ++x) {
      plane[-x] = 0.0f;
      if (odd_plane) odd_plane[-x] = 0.0f;
    }
    const int first = row_begin + phase.low;
    for (int y = first; y < row_end + phase.high; ++y) {
      const std::ptrdiff_t to = (y - first) * split.out_row, from = std::ptrdiff_t{y} * split.stride_y + phase.y;
      float* const even = plane + to;
      float* const odd = odd_plane ? odd_plane + to : nullptr;
      if (from >= 0 && from < split.height) {
        one(in + from * split.in_row + phase.x, even, odd, phase);
      } else {
        zero_row(even, static_cast<int>(split.out_row));
        if (odd) zero_row(odd, static_cast<int>(split.out_row));
      }
    }
  }
};

void split_phases(const Split& split, int row_begin, int row_end, int channel_begin, int channel_end) {
  const PhaseRows rows{split, row_begin, row_end};
  for (int channel = channel_begin; channel < channel_end; ++channel)
    for (int p = 0; p < split.count; ++p) {
      const SplitPhase& phase = split.phases[p];
      rows.run(split.in + channel * split.in_plane,
               split.out + (std::ptrdiff_t{channel} * split.planes + phase.plane) * split.out_plane, phase);
    }
}

}  // namespace

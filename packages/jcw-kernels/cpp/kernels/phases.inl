// Rows of planes split into their stride phases, whole vectors at a time: what a row's vectors write past its end, the
// next row writes again.
#pragma once

#include <array>

#include "tile.inl"

namespace {

using jcw::Split;
using jcw::SplitPhase;

// All ones in the first `count` lanes of a vector.
JCW_INLINE auto first_lanes(int count) {
  static constexpr auto edge = [] {
    std::array<std::uint32_t, 2 * Isa::width> words{};
    for (std::size_t i = 0; i < Isa::width; ++i) words[i] = ~0u;
    return words;
  }();
  return Isa::mask(edge.data() + Isa::width - count);
}

// At least `count` zeros, and fewer than a vector more.
JCW_INLINE void zeros(float* out, std::ptrdiff_t count) {
  for (std::ptrdiff_t i = 0; i < count; i += Isa::width) {
    Isa::store(out + i, Isa::set(0.0f));
    asm volatile("" ::: "memory");  // or gcc calls memset for a vector or two
  }
}

// Rows of one plane: `next` is where the second phase of a pair goes, beside the first.
struct PhaseRows {
  const Split& split;
  std::ptrdiff_t in_step, next;

  JCW_INLINE void pad(float* out, const SplitPhase& phase, std::ptrdiff_t count) const {
    zeros(out, count);
    if (phase.pair) zeros(out + next, count);
  }

  // Floats that the vectors of a row read.
  int reach() const { return (split.width + 2 * Isa::width - 1) / (2 * Isa::width) * 2 * Isa::width; }

  // How many of `rows` can be read by whole vectors.
  JCW_INLINE int fast(const float* in, int rows) const {
    const std::ptrdiff_t room = split.end - in - reach();
    if (split.stride_x != 2 || split.out_row > reach() / 2 + Isa::width || room < 0) return 0;
    return (rows - 1) * in_step <= room ? rows : static_cast<int>(room / in_step) + 1;
  }

  template <bool both>
  JCW_INLINE void by_two(const float* in, float* out, int width, int rows) const {
    constexpr int W = Isa::width;
    const int whole = width / (2 * W) * W, rest = width - 2 * whole, end = rest ? whole + W : whole;
    const auto evens_left = first_lanes((rest + 1) / 2), odds_left = first_lanes(rest / 2);
    for (; rows > 0; --rows, in += in_step, out += split.out_row) {
      vec even, odd;
      for (int x = 0; x < whole; x += W) {
        if constexpr (Isa::prefetches_all) prefetch(in + in_step + 2 * x);
        Isa::load_pair(in + 2 * x, even, odd);
        Isa::store(out + x, even);
        if constexpr (both) Isa::store(out + next + x, odd);
      }
      if (rest) {
        Isa::load_pair(in + 2 * whole, even, odd);
        Isa::store(out + whole, Isa::keep(even, evens_left));
        if constexpr (both) Isa::store(out + next + whole, Isa::keep(odd, odds_left));
      }
      if (end < split.out_row) {
        Isa::store(out + end, Isa::set(0.0f));
        if constexpr (both) Isa::store(out + next + end, Isa::set(0.0f));
      }
    }
  }

  __attribute__((noinline)) void one_by_one(const float* in, float* out, int width, int rows) const {
    const int columns = (width + split.stride_x - 1) / split.stride_x;
    for (; rows > 0; --rows, in += in_step, out += split.out_row) {
      for (int x = 0; x < columns; ++x) out[x] = in[x * split.stride_x];
      for (std::ptrdiff_t x = columns; x < split.out_row; ++x) out[x] = 0.0f;
    }
  }

  JCW_INLINE void run(const float* in, float* out, const SplitPhase& phase, int rows) const {
    const int width = split.width - phase.x, quick = fast(in, rows);
    phase.pair ? by_two<true>(in, out, width, quick) : by_two<false>(in, out, width, quick);
    if (quick == rows) return;
    in += quick * in_step;
    out += quick * split.out_row;
    one_by_one(in, out, width, rows - quick);
    if (phase.pair) one_by_one(in + 1, out + next, width - 1, rows - quick);
  }
};

void split_phases(const Split& split, int row_begin, int row_end, int channel_begin, int channel_end) {
  const PhaseRows rows{split, split.stride_y * split.in_row, split.out_plane};
  for (int channel = channel_begin; channel < channel_end; ++channel)
    for (int p = 0; p < split.count; ++p) {
      const SplitPhase& phase = split.phases[p];
      const float* in = split.in + channel * split.in_plane + phase.y * split.in_row + phase.x;
      float* out = split.out + (std::ptrdiff_t{channel} * split.planes + phase.plane) * split.out_plane +
                   (phase.low - split.low) * split.out_row;
      const int first = row_begin + phase.low, last = row_end + phase.high;
      const int begin = smaller(first < 0 ? 0 : first, last), real = smaller(last, phase.rows);
      const int end = real < begin ? begin : real;
      rows.pad(out - split.lead, phase, split.lead + (begin - first) * split.out_row);
      out += (begin - first) * split.out_row;
      rows.run(in + begin * rows.in_step, out, phase, end - begin);
      rows.pad(out + (end - begin) * split.out_row, phase, (last - end) * split.out_row);
    }
}

}  // namespace

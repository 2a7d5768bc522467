// Rows of planes split into their stride phases, whole vectors at a time: what a row's vectors write past its end, the
// next row writes again.
#pragma once

#include "convolve.inl"

namespace {

using jcw::Split;
using jcw::SplitPhase;

// Ones, zeros and ones, a vector of each.
struct Edges {
  std::uint32_t words[3 * Isa::width] = {};
  constexpr Edges() {
    for (int i = 0; i < Isa::width; ++i) words[i] = words[2 * Isa::width + i] = ~0u;
  }
};
constexpr Edges kEdges;

// All ones in the first `count` lanes of a vector, and in the others.
JCW_INLINE auto first_lanes(int count) { return Isa::mask(kEdges.words + Isa::width - count); }
JCW_INLINE auto last_lanes(int count) { return Isa::mask(kEdges.words + 2 * Isa::width - count); }

// Floats of a channel that the first cache keeps until it is the next one's turn.
constexpr std::ptrdiff_t kPlaneAhead = 4096;

// The rows [begin, end) of one phase in planes of the output that begin with row `first`. `next` is where the second
// phase of a pair goes, beside the first.
struct PhaseRows {
  const Split& split;
  const SplitPhase& phase;
  std::ptrdiff_t in_step, next;
  int first, begin, end, last, width;

  PhaseRows(const Split& all, const SplitPhase& one, int row_begin, int row_end)
      : split(all), phase(one), in_step(all.stride_y * all.in_row), next(all.out_plane), first(row_begin + one.low),
        begin(larger(first, 0)), end(smaller(row_end + one.high, one.rows)), last(row_end + one.high),
        width(all.width - one.x) {
    begin = smaller(begin, last);
    end = larger(end, begin);
  }

  // Floats that the vectors of a row read.
  int reach() const { return (width + 2 * Isa::width - 1) / (2 * Isa::width) * 2 * Isa::width; }

  bool by_vectors() const { return split.stride_x == 2 && split.out_row <= reach() / 2 + Isa::width; }
  bool one_vector() const { return width < 2 * Isa::width && split.out_row <= Isa::width; }

  // Processors that fetch the next row by themselves do not fetch the next channel's, which follows soon if rows are few.
  std::ptrdiff_t ahead() const {
    const std::ptrdiff_t all = (end - begin) * in_step;
    return Isa::prefetches_all || all > kPlaneAhead ? in_step : split.in_plane;
  }

  JCW_INLINE static void fetch(const element* in) {
    JCW_UNROLL
    for (int i = 0; i < 2 * Isa::width; i += kLine) prefetch(in + i);
  }

  // At least `count` floats of padding, and fewer than a vector more.
  template <bool both>
  JCW_INLINE void pad(element* out, std::ptrdiff_t count) const {
    for (std::ptrdiff_t i = 0; i < count; i += Isa::width) {
      Isa::store(out + i, Isa::set(split.fill));
      if constexpr (both) Isa::store(out + next + i, Isa::set(split.fill));
      asm volatile("" ::: "memory");  // or gcc calls memset for a vector or two
    }
  }

  template <bool both, bool one>
  JCW_INLINE void vectors(const element* in, element* out, int rows) const {
    constexpr int W = Isa::width;
    const int whole = one ? 0 : width / (2 * W) * W, rest = width - 2 * whole, filled = rest ? whole + W : whole;
    const std::ptrdiff_t far = ahead();
    const auto evens_left = first_lanes((rest + 1) / 2), odds_left = first_lanes(rest / 2);
    const vec after_evens = Isa::keep(Isa::set(split.fill), last_lanes((rest + 1) / 2));
    const vec after_odds = Isa::keep(Isa::set(split.fill), last_lanes(rest / 2));
    for (; rows > 0; --rows, in += in_step, out += split.out_row) {
      vec even, odd;
      for (int x = 0; x < whole; x += W) {
        fetch(in + far + 2 * x);
        Isa::load_pair(in + 2 * x, even, odd);
        Isa::store(out + x, even);
        if constexpr (both) Isa::store(out + next + x, odd);
      }
      if (one || rest) {
        fetch(in + far + 2 * whole);
        Isa::load_pair(in + 2 * whole, even, odd);
        Isa::store(out + whole, Isa::keep(even, evens_left) + after_evens);
        if constexpr (both) Isa::store(out + next + whole, Isa::keep(odd, odds_left) + after_odds);
      }
      if (!one && filled < split.out_row) pad<both>(out + filled, 1);
    }
  }

  __attribute__((noinline)) void pixels(const element* in, element* out, int count, int rows) const {
    for (; rows > 0; --rows, in += in_step, out += split.out_row) {
      for (int x = 0; x < count; ++x) out[x] = in[x * split.stride_x];
      for (std::ptrdiff_t x = count; x < split.out_row; ++x) out[x] = static_cast<element>(split.fill);
    }
  }

  // By vectors as far as these may be read.
  template <bool both, bool one>
  JCW_INLINE void plane(const element* in, element* out) const {
    const int rows = width > 0 ? end - begin : 0;  // that hold pixels
    pad<both>(out - split.lead, split.lead + (begin - first) * split.out_row);
    out += (begin - first) * split.out_row;
    pad<both>(out + rows * split.out_row, (last - begin - rows) * split.out_row);
    if (rows == 0) return;
    const std::ptrdiff_t room = elements(split.end) - in - reach();
    int quick = 0;  // rows
    if (by_vectors() && room >= 0) quick = (rows - 1) * in_step <= room ? rows : static_cast<int>(room / in_step) + 1;
    vectors<both, one>(in, out, quick);
    if (quick == rows) return;
    const element* left = in + quick * in_step;
    out += quick * split.out_row;
    pixels(left, out, (width + split.stride_x - 1) / split.stride_x, rows - quick);
    if constexpr (both) pixels(left + 1, out + next, width / 2, rows - quick);
  }

  template <bool both, bool one>
  void channels(int channel_begin, int channel_end) const {
    const element* in = elements(split.in) + (begin * split.stride_y + phase.y) * split.in_row + phase.x;
    element* const out = elements(split.out) + phase.plane * split.out_plane + (phase.low - split.low) * split.out_row;
    for (std::ptrdiff_t channel = channel_begin; channel < channel_end; ++channel)
      plane<both, one>(in + channel * split.in_plane, out + channel * split.planes * split.out_plane);
  }
};

// Channels whose phases are split in turns, so that rows of one phase bring those of the others into cache.
constexpr int kTurn = 4;

void split_phases(const Split& split, int row_begin, int row_end, int channel_begin, int channel_end) {
  for (int channel = channel_begin; channel < channel_end; channel += kTurn)
    for (int p = 0; p < split.count; ++p) {
      const PhaseRows rows(split, split.phases[p], row_begin, row_end);
      const int until = smaller(channel + kTurn, channel_end);
      if (split.phases[p].pair)
        rows.one_vector() ? rows.channels<true, true>(channel, until) : rows.channels<true, false>(channel, until);
      else
        rows.one_vector() ? rows.channels<false, true>(channel, until) : rows.channels<false, false>(channel, until);
    }
}

}  // namespace

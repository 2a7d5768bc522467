// The data caches of a Cortex-A72 and the memory of a Raspberry Pi 4: how long each access waits.
//
// Lines are 64 bytes, the least recently used is replaced. At 1.5 GHz:
//   first   32 KB, 2 ways; at most 6 lines on their way to it (Cortex-A72 TRM 6.4)
//   second  1 MB, 16 ways; 21 cycles from load to use as others measured it; a line every 8 cycles: LMBench reads
//           1 MB at 15.8 GB/s on a Cortex-A72 at 2 GHz with a larger second cache, and copies it at 9.6 GB/s,
//           13 cycles a line where two are charged here (TI Processor SDK Linux 11.02, J784S4, bw_mem)
//   memory  240 cycles, 160 ns: random reads of 16 to 128 MB took 153 to 170 ns on a Raspberry Pi 4 (sbc-bench);
//           a line every 24 cycles, 4 GB/s: STREAM's four loops reach 4.8 to 5.6 GB/s there on one core
// A load waits for its line. Stores are buffered (TRM 6.4): they and prefetches wait for one of the six places only,
// a line every 40 cycles from memory, where memset writes one every 31 on that machine (3.1 GB/s, sbc-bench).
// Nothing is prefetched but what the program asks for: the core's own prefetchers are left out. So are TLBs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace arm {

using Time = std::uint64_t;  // thousandths of a cycle
constexpr Time kCycle = 1000;

enum class Access { load, store, prefetch };
enum class Source { second, memory };

struct Line {
  std::uint64_t number = ~std::uint64_t{0};
  Time ready = 0;
  Source from = Source::second;
  bool dirty = false;
};

template <std::size_t sets, std::size_t ways>
class Cache {
 public:
  // The line, moved to the front of its set; null where it is missing.
  Line* find(std::uint64_t number) {
    Set& set = sets_[number % sets];
    const auto found = std::find_if(set.begin(), set.end(), [&](const Line& line) { return line.number == number; });
    if (found == set.end()) return nullptr;
    std::rotate(set.begin(), found, found + 1);
    return set.data();
  }

  // Puts a line that is missing at the front; returns what had to leave.
  Line insert(const Line& line) {
    Set& set = sets_[line.number % sets];
    const Line last = set.back();
    std::rotate(set.begin(), set.end() - 1, set.end());
    set.front() = line;
    return last;
  }

 private:
  using Set = std::array<Line, ways>;
  std::array<Set, sets> sets_{};
};

// A channel that carries one line at a time.
struct Channel {
  Time line, free = 0;
  Time carry(Time now) {
    const Time start = std::max(now, free);
    free = start + line;
    return start;
  }
};

struct Outcome {
  bool first_missed = false, second_missed = false;
  Source from = Source::second;
  Time wait = 0;
};

class Memory {
 public:
  Outcome access(std::uint64_t number, Access kind, Time now) {
    Outcome outcome;
    Line* line = first_.find(number);
    if (!line) {
      outcome.first_missed = true;
      Time& slot = *std::min_element(slots_.begin(), slots_.end());
      outcome.wait = slot > now ? slot - now : 0;
      line = fill(number, now + outcome.wait, outcome);
      slot = line->ready;
    }
    outcome.from = line->from;
    if (kind == Access::load && line->ready > now) outcome.wait = line->ready - now;
    line->dirty |= kind == Access::store;
    return outcome;
  }

 private:
  static constexpr Time kSecondLatency = 21 * kCycle, kMemoryLatency = 240 * kCycle;

  Line* fill(std::uint64_t number, Time now, Outcome& outcome) {
    Line line{number};
    const Time start = to_first_.carry(now);
    line.ready = start + kSecondLatency;
    if (!second_.find(number)) {
      outcome.second_missed = true;
      line.from = Source::memory;
      line.ready = to_second_.carry(start) + kMemoryLatency;
      if (second_.insert(Line{number}).dirty) to_second_.carry(start);
    }
    const Line old = first_.insert(line);
    if (old.dirty) write_back(old.number, start);
    return first_.find(number);
  }

  void write_back(std::uint64_t number, Time now) {
    if (Line* line = second_.find(number)) line->dirty = true;
    else to_second_.carry(now);
  }

  Cache<256, 2> first_;
  Cache<1024, 16> second_;
  Channel to_first_{8 * kCycle}, to_second_{24 * kCycle};
  std::array<Time, 6> slots_{};
};

}  // namespace arm

// The data caches of a core and the memory behind them: how long each access waits. The sizes are arm_cores.py's.
//
// Lines are 64 bytes, the least recently used is replaced. A load waits for its line. Stores are buffered: they and prefetches
// wait only for one of the places in which lines are on their way to the first cache. Nothing is prefetched but what the program
// asks for: the core's own prefetchers are left out. So are TLBs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace arm {

using Time = std::uint64_t;  // thousandths of a cycle
constexpr Time kCycle = 1000;

enum class Access { load, store, prefetch };
struct Line {
  std::uint64_t number = ~std::uint64_t{0};
  Time ready = 0;
  std::size_t from = 1;  // level
  bool dirty = false;
};

// A cache, or memory, which has no sets. A line of it is there after `latency`, and another one `line` later.
struct Level {
  std::size_t sets, ways;
  Time latency, line;
};

class Cache {
 public:
  Cache(std::size_t sets, std::size_t ways) : sets_(sets, std::vector<Line>(ways)) {}

  // The line, moved to the front of its set; null where it is missing.
  Line* find(std::uint64_t number) {
    std::vector<Line>& set = set_of(number);
    const auto found = std::find_if(set.begin(), set.end(), [&](const Line& line) { return line.number == number; });
    if (found == set.end()) return nullptr;
    std::rotate(set.begin(), found, found + 1);
    return set.data();
  }

  // Puts a line that is missing at the front; returns what had to leave.
  Line insert(const Line& line) {
    std::vector<Line>& set = set_of(line.number);
    const Line last = set.back();
    std::rotate(set.begin(), set.end() - 1, set.end());
    set.front() = line;
    return last;
  }

 private:
  std::vector<Line>& set_of(std::uint64_t number) { return sets_[number % sets_.size()]; }

  std::vector<std::vector<Line>> sets_;
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
  std::size_t missed = 0;  // so many caches, from the first on
  std::size_t from = 1;    // level that the line came from when it was fetched
  Time wait = 0;
};

class Memory {
 public:
  // The first level is what loads read, the last one memory; `places` lines may be on their way to the first.
  Memory(std::size_t places, const std::vector<Level>& levels) : levels_(levels), slots_(places) {
    for (const Level& level : levels) {
      channels_.push_back({level.line});
      if (level.sets) caches_.emplace_back(level.sets, level.ways);
    }
  }

  std::size_t caches() const { return caches_.size(); }

  Outcome access(std::uint64_t number, Access kind, Time now) {
    Outcome outcome;
    Line* line = caches_[0].find(number);
    if (!line) {
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
  Line* fill(std::uint64_t number, Time now, Outcome& outcome) {
    const Time start = std::max(now, channels_[1].free);
    Line line{number};
    line.ready = bring(number, 1, now, outcome);
    line.from = outcome.missed;
    const Line old = caches_[0].insert(line);
    if (old.dirty) write_back(old.number, 1, start);
    return caches_[0].find(number);
  }

  // When a line is there that the levels before `level` do not have.
  Time bring(std::uint64_t number, std::size_t level, Time now, Outcome& outcome) {
    outcome.missed = level;
    const Time start = channels_[level].carry(now);
    if (level == caches_.size() || caches_[level].find(number)) return start + levels_[level].latency;
    const Time ready = bring(number, level + 1, start, outcome);
    const Line old = caches_[level].insert(Line{number});
    if (old.dirty) write_back(old.number, level + 1, start);
    return ready;
  }

  void write_back(std::uint64_t number, std::size_t level, Time now) {
    if (level == caches_.size()) channels_[level].carry(now);
    else if (Line* line = caches_[level].find(number)) line->dirty = true;
    else write_back(number, level + 1, now);
  }

  std::vector<Level> levels_;
  std::vector<Cache> caches_;
  std::vector<Channel> channels_;
  std::vector<Time> slots_;
};

}  // namespace arm

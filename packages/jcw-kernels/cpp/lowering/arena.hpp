// One piece of memory for all activations, and which tensors take turns in which part of it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lowering/lower.hpp"

namespace jcw {

// Zeroed memory in huge pages where the system has them. Throws DeviceError when there is not enough.
class Arena {
 public:
  explicit Arena(std::int64_t floats);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  float* data() const { return data_; }

  // Nothing may be read or written there; only AddressSanitizer builds notice.
  void guard(std::int64_t begin, std::int64_t end);

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  float* data_ = nullptr;
};

// Memory in which each thread keeps what it needs only within a step. Steps reserve when they are made.
class Scratch {
 public:
  void reserve(std::int64_t floats);
  void allocate(int threads);
  std::int64_t floats() const { return floats_; }  // of one thread
  float* of(int thread) const { return memory_->data() + thread * (floats_ + kBlock); }

 private:
  std::int64_t floats_ = 0;
  std::unique_ptr<Arena> memory_;
};

struct Fill {
  std::int64_t begin, end;
  std::uint32_t bits;  // of each float
};

struct MemoryPlan {
  std::vector<std::int64_t> offset;  // of each tensor's first plane; -1 for external ones
  std::vector<bool> dirty;  // of each tensor: others leave values where its padding lies
  std::int64_t floats = 0;
  std::vector<Fill> fills;  // ranges that do not begin as zeros
  std::vector<std::pair<std::int64_t, std::int64_t>> guards;    // ranges between buffers
};

// Tensors share memory when one dies before the next is made: small planes those whose zeros lie in the same
// places, large ones any, since to write their padding anew costs less than memory that falls out of the caches.
MemoryPlan plan_memory(const Lowered& lowered);

}  // namespace jcw

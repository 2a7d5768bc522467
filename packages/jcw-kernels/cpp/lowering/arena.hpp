// Memory of activations and weights, and which tensors take turns in which part of it.
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

// Copies of what steps read, one after another in huge pages. From ordinary ones weights that are read once a run come at a
// third of the speed, as a page holds few of them and the tables of all pages fall out of the caches.
class Store {
 public:
  Store() = default;
  // What is the same in `other`, which outlives this and is asked to keep no more, is kept there alone.
  explicit Store(const Store* other) : other_(other) {}

  // A copy that lasts as long as this does and begins at a cache line; `values` are gone.
  template <class T>
  const T* keep(std::vector<T>& values) {
    const void* const to = keep(values.data(), values.size() * sizeof(T));
    values = {};
    return static_cast<const T*>(to);
  }

 private:
  struct Kept {
    const void* data;
    std::size_t bytes;
  };

  const void* keep(const void* values, std::size_t bytes);
  void* take(std::size_t bytes);

  const Store* other_ = nullptr;
  std::vector<Kept> kept_;  // in the order in which it was asked for
  std::vector<std::unique_ptr<Arena>> pieces_;
  std::int64_t used_ = 0, floats_ = 0;  // of the last piece
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

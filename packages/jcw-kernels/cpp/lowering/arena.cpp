#include "lowering/arena.hpp"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <map>
#include <string>

#include "base/error.hpp"

namespace jcw {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::int64_t kLargestArena = std::int64_t{1} << 31;  // floats

// Padding is written anew only where that is little beside the pixels: one share in this many.
constexpr std::int64_t kLeastPixelsPerPad = 12;

struct Slot {
  std::int64_t floats = 0;
  float fill = 0.0f;
  std::int64_t offset = 0;
  bool free = false;
};

// Large planes go wherever memory is free.
struct Placed {
  std::size_t tensor, first, last;  // written by operation `first`, last read by `last`
  std::string layout;
  std::int64_t floats, offset = 0;

  std::int64_t end() const { return offset + floats; }
  bool lives_with(const Placed& other) const { return first <= other.last && other.first <= last; }
  bool dirties(const Placed& other) const {
    return offset < other.end() && other.offset < end() && (offset != other.offset || layout != other.layout);
  }
};

bool is_large(const Tensor& tensor) {
#if defined(__SANITIZE_ADDRESS__)
  return false;  // so that guards may lie around every layout
#endif
  const Layout& layout = tensor.layout;
  if (tensor.flat || tensor.external || tensor.fill < 0) return false;
  return layout.run() >= kLeastPixelsPerPad * (layout.plane - layout.run());
}

class Planner {
 public:
  explicit Planner(const Lowered& lowered)
      : lowered_(lowered), last_(last_uses()), slot_(lowered.tensors.size(), -1) {
    plan_.offset.assign(lowered.tensors.size(), -1);
    plan_.dirty.assign(lowered.tensors.size(), false);
  }

  MemoryPlan run() {
    for (std::size_t o = 0; o < lowered_.operations.size(); ++o) {
      const Operation& operation = lowered_.operations[o];
      assign(index(operation.write), o);
      for (int t : operation.inputs()) release(index(t), o);
      release(index(operation.write), o);
    }
    place_large();
    place_slots();
    require_room(plan_.floats);
    return std::move(plan_);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  std::vector<std::size_t> last_uses() const {
    std::vector<std::size_t> last(lowered_.tensors.size(), 0);
    for (std::size_t o = 0; o < lowered_.operations.size(); ++o) {
      last[index(lowered_.operations[o].write)] = o;
      for (int t : lowered_.operations[o].inputs()) last[index(t)] = o;
    }
    last[index(lowered_.output)] = lowered_.operations.size();
    return last;
  }

  void assign(std::size_t t, std::size_t now) {
    const Tensor& tensor = lowered_.tensors[t];
    const std::string layout = tensor.flat ? "flat" : tensor.kind + " | " + tensor.layout.key();
    if (is_large(tensor)) {
      large_.push_back({t, now, last_[t], layout, floats_of(tensor)});
      return;
    }
    if (slot_[t] >= 0) return;
    std::vector<int>& pool = pools_[layout];
    const auto free = std::find_if(pool.begin(), pool.end(), [&](int s) { return slots_[index(s)].free; });
    if (free == pool.end()) {
      slots_.emplace_back();
      pool.push_back(static_cast<int>(slots_.size()) - 1);
      slot_[t] = pool.back();
    } else {
      slot_[t] = *free;
    }
    Slot& slot = slots_[index(slot_[t])];
    slot.free = false;
    slot.floats = std::max(slot.floats, floats_of(tensor));
    slot.fill = tensor.fill;
  }

  void release(std::size_t t, std::size_t now) {
    if (slot_[t] >= 0 && last_[t] <= now) slots_[index(slot_[t])].free = true;
  }

  // Each of them within the limit, so that sums of them are 64-bit numbers.
  static std::int64_t floats_of(const Tensor& tensor) {
    const std::int64_t floats = whole_blocks(tensor.layout.floats());
    require_room(floats);
    return floats;
  }

  static void require_room(std::int64_t floats) {
    if (floats > kLargestArena) throw DeviceError("the network needs more than 8 GB for its activations");
  }

  // The largest first, each at the lowest place that is free during its life.
  void place_large() {
    std::stable_sort(large_.begin(), large_.end(), [](const Placed& a, const Placed& b) { return a.floats > b.floats; });
    for (std::size_t i = 0; i < large_.size(); ++i) {
      Placed& tensor = large_[i];
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t other = 0; other < i; ++other) {
          const Placed& there = large_[other];
          if (!tensor.lives_with(there) || tensor.offset >= there.end() || there.offset >= tensor.end()) continue;
          tensor.offset = there.end();
          moved = true;
        }
      }
      plan_.floats = std::max(plan_.floats, tensor.end());
      plan_.offset[tensor.tensor] = tensor.offset + lowered_.tensors[tensor.tensor].layout.lead();
    }
    for (const Placed& one : large_)
      for (const Placed& other : large_)
        if (one.dirties(other)) plan_.dirty[one.tensor] = true;
    if (plan_.floats) guard();
  }

  void place_slots() {
    for (Slot& slot : slots_) {
      slot.offset = plan_.floats;
      plan_.floats += slot.floats;
      if (slot.fill < 0) plan_.negative.emplace_back(slot.offset, plan_.floats);
      guard();
    }
    for (std::size_t t = 0; t < slot_.size(); ++t)
      if (slot_[t] >= 0) plan_.offset[t] = slots_[index(slot_[t])].offset + lowered_.tensors[t].layout.lead();
  }

  void guard() {
    plan_.guards.emplace_back(plan_.floats, plan_.floats + kBlock);
    plan_.floats += kBlock;
  }

  const Lowered& lowered_;
  const std::vector<std::size_t> last_;
  std::vector<int> slot_;
  std::vector<Slot> slots_;
  std::vector<Placed> large_;
  std::map<std::string, std::vector<int>> pools_;
  MemoryPlan plan_;
};

}  // namespace

Arena::Arena(std::size_t floats) : bytes_(floats * sizeof(float) + 2 * kHugePage) {
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) throw DeviceError("no " + std::to_string(bytes_ >> 20) + " MB of memory for activations");
  const auto address = (reinterpret_cast<std::uintptr_t>(memory_) + kHugePage - 1) / kHugePage * kHugePage;
  data_ = reinterpret_cast<float*>(address);
#ifdef MADV_HUGEPAGE
  madvise(data_, bytes_ - kHugePage, MADV_HUGEPAGE);
#endif
}

Arena::~Arena() {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(memory_, bytes_);
#endif
  munmap(memory_, bytes_);
}

void Arena::guard([[maybe_unused]] std::int64_t begin, [[maybe_unused]] std::int64_t end) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(data_ + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
#endif
}

void Scratch::reserve(std::int64_t floats) {
  if (floats > kLargestArena) throw DeviceError("a layer needs more than 8 GB for what it computes with");
  floats_ = std::max(floats_, whole_blocks(floats));
}

void Scratch::allocate(int threads) {
  if (!floats_) return;
  memory_ = std::make_unique<Arena>(static_cast<std::size_t>(threads * (floats_ + kBlock)));
  for (int i = 1; i <= threads; ++i) memory_->guard(i * (floats_ + kBlock) - kBlock, i * (floats_ + kBlock));
}

MemoryPlan plan_memory(const Lowered& lowered) { return Planner(lowered).run(); }

}  // namespace jcw

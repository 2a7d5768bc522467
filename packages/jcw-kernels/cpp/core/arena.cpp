#include "arena.hpp"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <map>
#include <string>

#include "error.hpp"

namespace jcw {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::int64_t kLargestArena = std::int64_t{1} << 31;  // floats

struct Slot {
  std::int64_t floats = 0, lead = 0;
  float fill = 0.0f;
  std::int64_t offset = 0;
  bool free = false;
};

class Planner {
 public:
  explicit Planner(const Lowered& lowered) : lowered_(lowered), slot_(lowered.tensors.size(), -1) {}

  MemoryPlan run() {
    const std::vector<std::size_t> last = last_uses();
    for (std::size_t o = 0; o < lowered_.operations.size(); ++o) {
      const Operation& operation = lowered_.operations[o];
      assign(static_cast<std::size_t>(operation.write));
      for (int t : reads(operation)) release(static_cast<std::size_t>(t), last, o);
      release(static_cast<std::size_t>(operation.write), last, o);
    }
    return place();
  }

 private:
  static std::vector<int> reads(const Operation& operation) {
    std::vector<int> all = operation.reads;
    if (operation.residual >= 0) all.push_back(operation.residual);
    return all;
  }

  std::vector<std::size_t> last_uses() const {
    std::vector<std::size_t> last(lowered_.tensors.size(), 0);
    for (std::size_t o = 0; o < lowered_.operations.size(); ++o) {
      last[static_cast<std::size_t>(lowered_.operations[o].write)] = o;
      for (int t : reads(lowered_.operations[o])) last[static_cast<std::size_t>(t)] = o;
    }
    last[static_cast<std::size_t>(lowered_.output)] = lowered_.operations.size();
    return last;
  }

  void assign(std::size_t t) {
    if (slot_[t] >= 0) return;
    const Tensor& tensor = lowered_.tensors[t];
    std::vector<int>& pool = pools_[tensor.flat ? "flat" : tensor.kind + " | " + tensor.layout.key()];
    const auto free = std::find_if(pool.begin(), pool.end(), [&](int s) { return slots_[static_cast<std::size_t>(s)].free; });
    if (free == pool.end()) {
      slots_.emplace_back();
      pool.push_back(static_cast<int>(slots_.size()) - 1);
      slot_[t] = pool.back();
    } else {
      slot_[t] = *free;
    }
    Slot& slot = slots_[static_cast<std::size_t>(slot_[t])];
    slot.free = false;
    slot.floats = std::max(slot.floats, tensor.layout.floats());
    slot.lead = tensor.layout.lead();
    slot.fill = tensor.fill;
  }

  void release(std::size_t t, const std::vector<std::size_t>& last, std::size_t now) {
    if (slot_[t] >= 0 && last[t] <= now) slots_[static_cast<std::size_t>(slot_[t])].free = true;
  }

  MemoryPlan place() {
    MemoryPlan plan;
    for (Slot& slot : slots_) {
      slot.offset = plan.floats;
      plan.floats += (slot.floats + kBlock - 1) / kBlock * kBlock;
      if (slot.fill < 0) plan.negative.emplace_back(slot.offset, plan.floats);
      plan.guards.emplace_back(plan.floats, plan.floats + kBlock);
      plan.floats += kBlock;
    }
    if (plan.floats > kLargestArena) throw FormatError("the network needs more than 8 GB for its activations");
    for (const int s : slot_)
      plan.offset.push_back(s < 0 ? -1 : slots_[static_cast<std::size_t>(s)].offset + slots_[static_cast<std::size_t>(s)].lead);
    return plan;
  }

  const Lowered& lowered_;
  std::vector<int> slot_;
  std::vector<Slot> slots_;
  std::map<std::string, std::vector<int>> pools_;
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

MemoryPlan plan_memory(const Lowered& lowered) { return Planner(lowered).run(); }

}  // namespace jcw

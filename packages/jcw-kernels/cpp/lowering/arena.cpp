// Placing tensors in memory, and asking the system for it.
#include "lowering/arena.hpp"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "base/error.hpp"

namespace jcw {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::int64_t kLargestArena = std::int64_t{1} << 31;  // floats
constexpr std::int64_t kLine = 16;  // floats of a cache line
constexpr std::int64_t kPiece = 1 << 20;  // floats that a store asks the system for at a time, at least

// Padding is written anew only where that is little beside the pixels: one share in this many.
constexpr std::int64_t kLeastPixelsPerPad = 12;

// Large planes that live at the same time as another and are looked at to place that one. No network has as many, and with more
// the work would grow as their square.
constexpr std::size_t kMostNeighbours = 256;

struct Slot {
  std::int64_t floats = 0;
  std::uint32_t padding = 0;
  std::int64_t offset = 0;
  std::set<int>* free = nullptr;  // numbers of those of its layout that nobody uses
};

// Large planes go wherever memory is free.
struct Placed {
  std::size_t tensor, first, last;  // written by operation `first`, last read by `last`
  std::string layout;
  std::int64_t floats, offset = 0;

  std::int64_t end() const { return offset + floats; }
  bool lies_as(const Placed& other) const { return offset == other.offset && layout == other.layout; }
};

bool is_before(const Placed* a, const Placed* b) { return std::tie(a->offset, a->layout) < std::tie(b->offset, b->layout); }

// Finds the planes that live at the same time as another: in a binary tree over the operations, a few nodes make up each
// life.
class Lives {
 public:
  explicit Lives(std::size_t operations) {
    while (leaves_ < operations) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
  }

  void add(const Placed& one) {
    visit(one, 1, 0, leaves_, [&](Node& node, bool whole) { (whole ? node.living : node.below).push_back(&one); });
  }

  // In the order in which they lie in memory, some of them more than once. None where there are too many to look at.
  std::optional<std::vector<const Placed*>> with(const Placed& one) {
    std::vector<const Placed*> found;
    bool all = true;
    const auto take = [&](const std::vector<const Placed*>& some) {
      all = all && found.size() + some.size() <= kMostNeighbours;
      if (all) found.insert(found.end(), some.begin(), some.end());
    };
    visit(one, 1, 0, leaves_, [&](Node& node, bool whole) {
      take(node.living);
      if (whole) take(node.below);
    });
    if (!all) return std::nullopt;
    std::sort(found.begin(), found.end(), is_before);
    return found;
  }

 private:
  struct Node {
    std::vector<const Placed*> living, below;  // during all operations of the node, and of nodes below it
  };

  // Calls body(node, whether all of its operations are within the life) from the root down to nodes of which that is true.
  template <class Body>
  void visit(const Placed& one, std::size_t node, std::size_t begin, std::size_t end, const Body& body) {
    if (one.last < begin || one.first >= end) return;
    const bool whole = one.first <= begin && end <= one.last + 1;
    body(nodes_[node], whole);
    if (whole) return;
    const std::size_t middle = (begin + end) / 2;
    visit(one, 2 * node, begin, middle, body);
    visit(one, 2 * node + 1, middle, end, body);
  }

  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

bool is_large(const Tensor& tensor) {
#if defined(__SANITIZE_ADDRESS__)
  return false;  // so that guards may lie around every layout
#endif
  const Layout& layout = tensor.layout;
  if (tensor.flat || tensor.external || (tensor.holds_floats() && tensor.padding())) return false;
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
      for (int t : operation.outputs()) assign(index(t), o);
      for (int t : operation.inputs()) release(index(t), o);
      for (int t : operation.outputs()) release(index(t), o);
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
      for (int t : lowered_.operations[o].outputs()) last[index(t)] = o;
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
    std::set<int>& free = free_[layout];
    if (free.empty()) {
      slots_.emplace_back();
      free.insert(whole(static_cast<std::int64_t>(slots_.size())) - 1);
    }
    slot_[t] = free.extract(free.begin()).value();
    Slot& slot = slots_[index(slot_[t])];
    slot.free = &free;
    slot.floats = std::max(slot.floats, floats_of(tensor));
    slot.padding = tensor.padding();
  }

  void release(std::size_t t, std::size_t now) {
    if (slot_[t] >= 0 && last_[t] <= now) slots_[index(slot_[t])].free->insert(slot_[t]);
  }

  // Each of them within the limit, so that sums of them are 64-bit numbers.
  static std::int64_t floats_of(const Tensor& tensor) {
    const std::int64_t floats = tensor.floats();
    require_room(floats);
    return floats;
  }

  static void require_room(std::int64_t floats) {
    if (floats > kLargestArena) throw DeviceError("the network needs more than 8 GB for its activations");
  }

  // The lowest offset that is free of the others, or behind all planes.
  std::int64_t place(const Placed& tensor, const std::optional<std::vector<const Placed*>>& others) const {
    if (!others) return plan_.floats;
    std::int64_t offset = 0;
    for (const Placed* there : *others) {
      if (offset + tensor.floats <= there->offset) break;
      offset = std::max(offset, there->end());
    }
    return offset;
  }

  // The largest first, each at the lowest place that is free during its life.
  void place_large() {
    std::stable_sort(large_.begin(), large_.end(), [](const Placed& a, const Placed& b) { return a.floats > b.floats; });
    Lives lives(lowered_.operations.size() + 1);
    for (Placed& tensor : large_) {
      tensor.offset = place(tensor, lives.with(tensor));
      lives.add(tensor);
      plan_.floats = std::max(plan_.floats, tensor.end());
      plan_.offset[tensor.tensor] = tensor.offset + lowered_.tensors[tensor.tensor].lead();
    }
    find_dirty();
    for (const Placed& one : large_)
      if (const std::uint32_t padding = lowered_.tensors[one.tensor].padding(); padding && !plan_.dirty[one.tensor])
        plan_.fills.push_back({one.offset, one.end(), padding});
    if (plan_.floats) guard();
  }

  // Those that share memory with one that lies otherwise. Of tensors in the order in which they lie, one such that begins
  // before is found by where the furthest of them ends, one that begins later by where the next begins.
  void find_dirty() {
    std::vector<const Placed*> sorted;
    for (const Placed& one : large_) sorted.push_back(&one);
    std::sort(sorted.begin(), sorted.end(), is_before);
    std::int64_t furthest = 0;
    for (auto begin = sorted.begin(), end = begin; begin != sorted.end(); begin = end) {
      std::int64_t own = 0;
      for (; end != sorted.end() && (*end)->lies_as(**begin); ++end) own = std::max(own, (*end)->end());
      for (auto one = begin; one != end; ++one)
        plan_.dirty[(*one)->tensor] =
            furthest > (*begin)->offset || (end != sorted.end() && (*end)->offset < (*one)->end());
      furthest = std::max(furthest, own);
    }
  }

  void place_slots() {
    for (Slot& slot : slots_) {
      slot.offset = plan_.floats;
      plan_.floats += slot.floats;
      if (slot.padding) plan_.fills.push_back({slot.offset, plan_.floats, slot.padding});
      guard();
    }
    for (std::size_t t = 0; t < slot_.size(); ++t)
      if (slot_[t] >= 0) plan_.offset[t] = slots_[index(slot_[t])].offset + lowered_.tensors[t].lead();
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
  std::map<std::string, std::set<int>> free_;
  MemoryPlan plan_;
};

}  // namespace

Arena::Arena(std::int64_t floats) {
  constexpr auto kMost = static_cast<std::int64_t>(std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float) - kHugePage);
  if (floats > kMost) throw DeviceError("the network takes more memory than there are addresses");
  bytes_ = static_cast<std::size_t>(floats) * sizeof(float) + 2 * kHugePage;
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) throw DeviceError("no " + std::to_string(bytes_ >> 20) + " MB of memory for the network");
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

const void* Store::keep(const void* values, std::size_t bytes) {
  const std::size_t next = kept_.size();
  if (other_ && next < other_->kept_.size()) {
    const Kept& there = other_->kept_[next];
    if (there.bytes == bytes && (!bytes || !std::memcmp(there.data, values, bytes))) return kept_.emplace_back(there).data;
  }
  void* const to = take(bytes);
  if (bytes) std::memcpy(to, values, bytes);
  return kept_.emplace_back(Kept{to, bytes}).data;
}

void* Store::take(std::size_t bytes) {
  const std::int64_t own = static_cast<std::int64_t>(divide_up(bytes, kLine * sizeof(float))) * kLine;
  if (used_ + own + kLine > floats_) {
    used_ = 0;
    floats_ = std::max(kPiece, own + kLine);
    pieces_.push_back(std::make_unique<Arena>(floats_));
  }
  Arena& piece = *pieces_.back();
  float* const begin = piece.data() + used_;
  used_ += own + kLine;
  piece.guard(used_ - kLine, used_);
  return begin;
}

void Scratch::reserve(std::int64_t floats) {
  if (floats > kLargestArena) throw DeviceError("a layer needs more than 8 GB for what it computes with");
  floats_ = std::max(floats_, whole_blocks(floats));
}

void Scratch::allocate(int threads) {
  if (!floats_) return;
  memory_ = std::make_unique<Arena>(threads * (floats_ + kBlock));
  for (int i = 1; i <= threads; ++i) memory_->guard(i * (floats_ + kBlock) - kBlock, i * (floats_ + kBlock));
}

MemoryPlan plan_memory(const Lowered& lowered) { return Planner(lowered).run(); }

}  // namespace jcw

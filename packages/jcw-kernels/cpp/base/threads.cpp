#include "base/threads.hpp"

#include <exception>
#include <string>

#include "base/error.hpp"

namespace jcw {
namespace {

// Steps of a network follow within microseconds, so waiting threads look a while before they sleep.
constexpr int kSpins = 4000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

Threads::Threads(int count) {
  try {
    for (int part = 1; part < count; ++part) workers_.emplace_back([this, part] { serve(part); });
  } catch (const std::exception&) {
    const int started = this->count();
    stop();
    throw DeviceError("only " + std::to_string(started) + " of " + std::to_string(count) + " threads could be started");
  }
}

Threads::~Threads() { stop(); }

void Threads::stop() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Threads::run(const std::function<void(int)>& work) {
  if (workers_.empty()) return work(0);
  work_ = &work;
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  for (int left = pending_.load(std::memory_order_acquire); left > 0; left = pending_.load(std::memory_order_acquire))
    wait_while(pending_, left);
}

void Threads::serve(int part) {
  unsigned seen = 0;
  for (;;) {
    wait_while(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (stop_) return;
    (*work_)(part);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace jcw

// Threads that wait for rounds of work, and take parts of it.
#include "base/threads.hpp"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <vector>

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

// Returns when the value is another one.
template <class T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

// Rounds are numbered, and each thread has its own part of a round, so that what it computed lies in its cache in the next
// one. Whoever has ended its own part takes those that nobody has begun.
class Crew {
 public:
  explicit Crew(int count) : begun_(static_cast<std::size_t>(count)) {
    try {
      for (int part = 1; part < count; ++part) workers_.emplace_back([this, part] { serve(part); });
    } catch (const std::exception&) {
      const std::size_t started = workers_.size() + 1;
      stop();
      throw DeviceError("only " + std::to_string(started) + " of " + std::to_string(count) + " threads could be started");
    }
  }

  ~Crew() { stop(); }

  void run(const std::function<void(int)>& work) {
    work_ = &work;
    left_.store(parts(), std::memory_order_relaxed);
    const unsigned round = round_.fetch_add(1, std::memory_order_release) + 1;
    round_.notify_all();
    take_parts(0, round);
    for (int left = left_.load(std::memory_order_acquire); left > 0; left = left_.load(std::memory_order_acquire))
      wait_while(left_, left);
  }

 private:
  int parts() const { return static_cast<int>(begun_.size()); }

  void stop() {
    stop_ = true;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void serve(int own) {
    for (unsigned round = 0;;) {
      wait_while(round_, round);
      round = round_.load(std::memory_order_acquire);
      if (stop_) return;
      take_parts(own, round);
    }
  }

  void take_parts(int own, unsigned round) {
    for (int i = 0; i < parts(); ++i) {
      const int part = (own + i) % parts();
      if (!begin(part, round)) continue;
      (*work_)(part);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    }
  }

  // False when another thread has begun the part. So it is for a thread that comes when its round is over, so that only
  // what is under way is ever touched.
  bool begin(int part, unsigned round) {
    unsigned before = round - 1;
    return begun_[static_cast<std::size_t>(part)].round.compare_exchange_strong(before, round, std::memory_order_acq_rel);
  }

  struct alignas(64) Begun {  // a cache line of its own
    std::atomic<unsigned> round{0};
  };

  std::vector<Begun> begun_;  // of each part, the last round in which it was begun
  std::vector<std::thread> workers_;
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<unsigned> round_{0};
  std::atomic<int> left_{0};  // parts that are not done
  std::atomic<bool> stop_{false};
};

Threads::Threads(int count)
    : count_(count), process_(getpid()), crew_(count > 1 ? std::make_unique<Crew>(count) : nullptr) {}

Threads::~Threads() {
  if (process_ != getpid()) crew_.release();  // its threads are the parent's, and never end here
}

void Threads::run(const std::function<void(int)>& work) {
  if (!crew_) return work(0);
  crew_->run(work);
}

void Threads::restart_after_fork() {
  if (process_ == getpid()) return;
  crew_.release();
  if (count_ > 1) crew_ = std::make_unique<Crew>(count_);
  process_ = getpid();
}

}  // namespace jcw

// A few threads that all run one function at a time.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace jcw {

class Threads {
 public:
  // The caller counts as one: `count` - 1 threads are started. Throws DeviceError when the system has no more.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(part) once for every part in [0, count()) and returns when all are done.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int part);
  void stop();

  std::vector<std::thread> workers_;
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<unsigned> round_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace jcw

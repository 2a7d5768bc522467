// A few threads that all run one function at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

namespace jcw {

class Crew;

class Threads {
 public:
  // The caller counts as one: `count` - 1 threads are started. Throws DeviceError when the system has no more.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return count_; }

  // Calls work(part) once for every part in [0, count()) and returns when all are done. Threads that the system does not
  // run at the moment are not waited for: the others take their parts.
  void run(const std::function<void(int)>& work);

  // Starts the threads anew in a child of fork(), which has only the one that called it. Throws DeviceError.
  void restart_after_fork();

 private:
  int count_;
  pid_t process_;
  std::unique_ptr<Crew> crew_;  // of all but the caller; null where there are none
};

}  // namespace jcw

// Counts what a thread does that could make it wait: allocations, locks and system calls (wake-ups and I/O are such too).
// Linux on x86-64, kernel 5.11 or later.
//
// Allocations and locks are counted by standing in for malloc, pthread_mutex_lock and their like in the whole process; system
// calls by the kernel's syscall user dispatch, which raises SIGSYS before any of them is made.
#pragma once

#include <cstdint>

namespace scalewatch::client_test {

// While it lives, on the thread that made it. One at a time in a process.
class TrainerGuard {
 public:
  TrainerGuard();  // throws std::system_error when the kernel has no syscall user dispatch
  ~TrainerGuard();
  TrainerGuard(const TrainerGuard&) = delete;
  TrainerGuard& operator=(const TrainerGuard&) = delete;

  // What the watched thread does between the two is not counted; on another thread they do nothing.
  static void pause();
  static void resume();

  [[nodiscard]] std::uint64_t allocations() const;
  [[nodiscard]] std::uint64_t locks() const;  // mutexes taken, free ones too, and conditions signalled
  [[nodiscard]] std::uint64_t system_calls() const;
  [[nodiscard]] long last_system_call() const;  // its number; -1 = none
};

}  // namespace scalewatch::client_test

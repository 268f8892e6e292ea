// Threads that measure() may use for large tensors.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/cpu/kernel.h"

namespace scalewatch {

// A fixed set of threads, asleep except while a large tensor is measured. All signals are blocked in them; scheduling class and
// processor affinity are those of the thread that made the set. One measurement has the threads at a time; whoever finds them
// taken measures alone. Thread-safe but for its destruction, which must come after the last use.
//
// In a forked child the threads are gone: measure() works there without them, and destruction is harmless.
class Workers {
 public:
  static constexpr unsigned kMaxThreads = 64;

  // threads: how many measure at once, the caller's own among them, so one less is started; clamped to 1 ... kMaxThreads.
  // Where the system gives fewer, there are fewer. Allocates about 100 KB.
  explicit Workers(unsigned threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Threads that measure at once, the caller's among them.
  [[nodiscard]] unsigned threads() const noexcept;

 private:
  friend class WorkersLease;
  struct Crew;
  std::unique_ptr<Crew> crew_;
};

// What measure() holds of a set of threads while it uses it. Internal to cuda/cpu.
class WorkersLease {
 public:
  // Takes the threads unless there are none (a null pointer, a set of one, a forked child) or another measurement has them.
  explicit WorkersLease(Workers* workers) noexcept;
  ~WorkersLease();
  WorkersLease(const WorkersLease&) = delete;
  WorkersLease& operator=(const WorkersLease&) = delete;

  [[nodiscard]] explicit operator bool() const noexcept { return crew_ != nullptr; }

  // Room for the result of each part, up to cpu::kMaxParts.
  [[nodiscard]] cpu::State* states() const noexcept;

  // Calls body(context, part) once for each part below `parts`, on all threads, and returns when all are done.
  void run(std::size_t parts, void (*body)(void* context, std::size_t part), void* context) const noexcept;

 private:
  Workers::Crew* crew_ = nullptr;
};

}  // namespace scalewatch

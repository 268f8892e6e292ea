// Tells a forked child from the process that opened its monitors, without a system call per question.
#pragma once

#include <atomic>

namespace scalewatch::client {

// Of this process; rises by one in every forked child once watch_forks() was called.
inline std::atomic<unsigned> current_fork_generation{0};

[[nodiscard]] inline unsigned fork_generation() noexcept {
  return current_fork_generation.load(std::memory_order_relaxed);
}
void watch_forks() noexcept;

}  // namespace scalewatch::client

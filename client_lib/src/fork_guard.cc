#include "client_lib/src/fork_guard.h"

#include <pthread.h>

namespace scalewatch::client {

void watch_forks() noexcept {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { current_fork_generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
}

}  // namespace scalewatch::client

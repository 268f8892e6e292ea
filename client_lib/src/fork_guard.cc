#include "client_lib/src/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace scalewatch::client {
namespace {

std::atomic<unsigned> generation{0};

}  // namespace

unsigned fork_generation() noexcept {
  return generation.load(std::memory_order_relaxed);
}

void watch_forks() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
}

}  // namespace scalewatch::client

#include "client_lib/src/log.h"

#include <atomic>
#include <chrono>
#include <cstdio>

namespace scalewatch::client {

bool log_line(std::string_view text) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::rep> next{0};
  const auto now = Clock::now();
  Clock::rep due = next.load();
  if (now.time_since_epoch().count() < due) return false;
  if (!next.compare_exchange_strong(due, (now + std::chrono::minutes(1)).time_since_epoch().count())) return false;
  std::fprintf(stderr, "scalewatch: %.*s\n", static_cast<int>(text.size()), text.data());
  return true;
}

}  // namespace scalewatch::client

// The engine's counters, bumped from any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace scalewatch::engine {

struct Counters {
  std::atomic<std::uint64_t> reports{0};
  std::atomic<std::uint64_t> records{0};
  std::atomic<std::uint64_t> reports_repeated{0};
  std::atomic<std::uint64_t> reports_rejected{0};
  std::atomic<std::uint64_t> reports_lost{0};
  std::atomic<std::uint64_t> reports_thinned{0};
  std::atomic<std::uint64_t> reports_late{0};
  std::atomic<std::uint64_t> streams_fenced{0};
  std::atomic<std::uint64_t> streams_open{0};  // now
  std::atomic<std::uint64_t> queued_bytes{0};  // now
};

}  // namespace scalewatch::engine

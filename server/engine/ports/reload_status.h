// How the newest reading of the configuration went, for whoever shows it. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace scalewatch::engine {

struct ReloadStatus {
  std::atomic<bool> last_successful{true};  // the newest one; the start counts as one
  std::atomic<std::int64_t> success_ms{0};  // server's clock, Unix milliseconds: of the newest that went well
  std::atomic<std::uint64_t> reloads{0};    // that went well, since the start
  std::atomic<std::uint64_t> failures{0};   // that left all as it was
};

}  // namespace scalewatch::engine

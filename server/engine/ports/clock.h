// The server's clock, so that tests can own time. Thread-safe.
#pragma once

#include <cstdint>

namespace scalewatch::engine {

class Clock {
 public:
  virtual ~Clock() = default;
  // Unix milliseconds; may jump with the wall clock. Stored and shown.
  [[nodiscard]] virtual std::int64_t wall_ms() const = 0;
  // Milliseconds that never go back. Timers use it.
  [[nodiscard]] virtual std::int64_t steady_ms() const = 0;
};

}  // namespace scalewatch::engine

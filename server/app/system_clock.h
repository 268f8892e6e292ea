#pragma once

#include <chrono>
#include <cstdint>

#include "server/engine/ports/clock.h"

namespace scalewatch::app {

// The machine's clocks.
class SystemClock final : public engine::Clock {
 public:
  [[nodiscard]] std::int64_t wall_ms() const override { return since_epoch<std::chrono::system_clock>(); }
  [[nodiscard]] std::int64_t steady_ms() const override { return since_epoch<std::chrono::steady_clock>(); }

 private:
  template <class AnyClock>
  static std::int64_t since_epoch() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(AnyClock::now().time_since_epoch()).count();
  }
};

}  // namespace scalewatch::app

// The time of day, as reports and directives have it.
#pragma once

#include <chrono>
#include <cstdint>

namespace scalewatch::client {

// Unix time in milliseconds.
inline std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace scalewatch::client

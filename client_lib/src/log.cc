#include "client_lib/src/log.h"

#include <cstdio>

namespace scalewatch::client {

void Log::line(std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::minutes(1);
  std::fprintf(stderr, "scalewatch: %.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace scalewatch::client

#include "server/fleet/own_room.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace scalewatch::fleet {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBelieve{1000};
constexpr milliseconds kRefused{5000};

}  // namespace

bool OwnRoom::is_there() {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() >= until_) note(!look_ || look_(), kBelieve);
  return there_;
}

void OwnRoom::refused() {
  const std::lock_guard lock(mutex_);
  note(false, kRefused);
}

void OwnRoom::note(bool there, milliseconds believed) {
  until_ = std::chrono::steady_clock::now() + believed;
  if (std::exchange(there_, there) == there) return;
  if (there) {
    spdlog::info("fleet: this server's own store has room for runs again");
  } else {
    spdlog::error("fleet: this server's own store takes no runs, its disk is full or fails: other servers take them");
  }
}

}  // namespace scalewatch::fleet

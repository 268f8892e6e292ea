// Whether this server's own store takes runs from elsewhere: one whose disk is full would claim them and then not have them.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>

namespace scalewatch::fleet {

class OwnRoom {
 public:
  // `look`: there is room; empty: always. It is asked now and then.
  explicit OwnRoom(std::function<bool()> look) : look_(std::move(look)) {}

  bool is_there();
  // The store did not take what it was to: there is none for a while, whatever `look` says.
  void refused();

 private:
  void note(bool there, std::chrono::milliseconds believed);  // mutex_ is held

  const std::function<bool()> look_;
  std::mutex mutex_;
  bool there_ = true;
  std::chrono::steady_clock::time_point until_{};
};

}  // namespace scalewatch::fleet

// Which of several hosts is asked: the first that answers, and again the first once it does. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <utility>
#include <vector>

namespace scalewatch::clickhouse {

class Hosts {
 public:
  enum class State : std::uint8_t { kAway, kNoTables, kGood };
  // How a host is, found out within some seconds. Called on a thread of its own, so that no question waits behind a host that
  // hangs.
  using Look = std::function<State(std::size_t host)>;
  Hosts(std::size_t count, Look look) : look_(std::move(look)), has_tables_(count, true) {}

  [[nodiscard]] std::size_t count() const { return has_tables_.size(); }
  // The one to ask. Looks at those before it, and at those without tables, now and then.
  std::size_t current();
  // The current one did not answer, or has a fault of its own: the next one is current.
  void failed();
  // One without tables is not asked. Whoever knows that it has them again says so, or a look finds them.
  void set_tables(std::size_t host, bool there) { has_tables_[host] = there; }
  [[nodiscard]] bool has_tables(std::size_t host) const { return has_tables_[host]; }
  // Whether one turned out to be there without tables since this was asked last.
  bool take_bare() { return std::exchange(bare_, false); }

 private:
  using SteadyClock = std::chrono::steady_clock;
  using Seen = std::vector<std::pair<std::size_t, State>>;
  void go_on();  // to the next one that has tables, or that is next where none has
  void begin_look();
  void take(const Seen& seen);

  const Look look_;
  std::vector<bool> has_tables_;
  std::size_t current_ = 0;
  bool bare_ = false;
  SteadyClock::duration wait_{};  // between looks; longer where the one that was gone back to failed again
  SteadyClock::time_point look_at_{};
  SteadyClock::time_point went_back_{};
  std::future<Seen> seen_;  // of a look that is on its way. Last: it is waited for before anything else goes
};

}  // namespace scalewatch::clickhouse

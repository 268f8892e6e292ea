#include "server/history/clickhouse/hosts.h"

#include <algorithm>

namespace scalewatch::clickhouse {

namespace {

constexpr std::chrono::seconds kWait{5};
constexpr std::chrono::minutes kLongestWait{5};
constexpr std::chrono::minutes kHolds{1};  // so long one that was gone back to has to do

}  // namespace

std::size_t Hosts::current() {
  if (seen_.valid() && seen_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) take(seen_.get());
  if (!seen_.valid() && SteadyClock::now() >= look_at_) begin_look();
  if (!has_tables_[current_]) go_on();
  return current_;
}

void Hosts::begin_look() {
  std::vector<std::size_t> hosts;
  for (std::size_t host = 0; host < count(); ++host) {
    if (host < current_ || !has_tables_[host]) hosts.push_back(host);
  }
  if (hosts.empty()) return;
  seen_ = std::async(std::launch::async, [look = look_, hosts] {
    Seen seen;
    for (const std::size_t host : hosts) seen.emplace_back(host, look(host));
    return seen;
  });
}

void Hosts::take(const Seen& seen) {
  const auto now = SteadyClock::now();
  wait_ = std::max<SteadyClock::duration>(wait_, kWait);
  look_at_ = now + wait_;
  std::size_t first = current_;
  for (const auto& [host, state] : seen) {
    if (state == State::kAway) continue;
    has_tables_[host] = state == State::kGood;
    bare_ = bare_ || state == State::kNoTables;
    if (state == State::kGood) first = std::min(first, host);
  }
  if (first == current_) return;
  current_ = first;
  went_back_ = now;
}

void Hosts::failed() {
  const auto now = SteadyClock::now();
  const bool again = went_back_ != SteadyClock::time_point() && now - went_back_ < kHolds;
  wait_ = again ? std::min<SteadyClock::duration>(wait_ * 2, kLongestWait) : SteadyClock::duration(kWait);
  look_at_ = now + wait_;
  go_on();
}

void Hosts::go_on() {
  for (std::size_t tries = 0; tries < count(); ++tries) {
    current_ = (current_ + 1) % count();
    if (has_tables_[current_]) return;
  }
}

}  // namespace scalewatch::clickhouse

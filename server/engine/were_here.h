// Client starts of a run that were replaced, or are of before this server began. Bounded: the oldest are forgotten first.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <utility>

#include "server/domain/observation.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

class WereHere {
 public:
  static constexpr std::size_t kMost = 100'000;

  explicit WereHere(std::size_t most = kMost) : most_(most) {}

  void add(domain::Rank rank, const Incarnation& incarnation) {
    if (!known_.emplace(rank, incarnation).second) return;
    by_age_.emplace_back(rank, incarnation);
    if (by_age_.size() <= most_) return;
    known_.erase(by_age_.front());
    by_age_.pop_front();
  }
  [[nodiscard]] bool contains(domain::Rank rank, const Incarnation& incarnation) const {
    return known_.contains({rank, incarnation});
  }

 private:
  std::size_t most_;
  std::set<std::pair<domain::Rank, Incarnation>> known_;
  std::deque<std::pair<domain::Rank, Incarnation>> by_age_;  // the oldest first
};

}  // namespace scalewatch::engine

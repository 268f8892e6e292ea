// Attempts that wait for their closing, by number. Most runs have one or two at a time, and none needs memory of its own for
// long. Not thread-safe.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>

#include "server/domain/attempt.h"

namespace scalewatch::domain {

class WaitingAttempts {
 public:
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }
  // Of the lowest number; not when empty.
  [[nodiscard]] JoinedAttempt& first() { return *waiting_.front(); }
  // Null: it does not wait.
  [[nodiscard]] JoinedAttempt* find(Attempt attempt) {
    const auto at = place(attempt);
    return at != waiting_.end() && (*at)->attempt == attempt ? at->get() : nullptr;
  }
  // One that does not wait yet.
  JoinedAttempt& add(Attempt attempt) {
    auto fresh = spare_ ? std::move(spare_) : std::make_unique<JoinedAttempt>();
    fresh->clear();
    fresh->attempt = attempt;
    return **waiting_.insert(place(attempt), std::move(fresh));
  }
  // The first is closed. Its memory is used again.
  void drop_first() {
    spare_ = std::move(waiting_.front());
    waiting_.pop_front();
  }
  void clear() { waiting_.clear(); }

  template <class A>
  void persist(A& a) {
    const std::size_t size = a.size_prefix(waiting_.size());
    if constexpr (A::kLoading) waiting_.clear();
    for (std::size_t i = 0; i < size; ++i) {
      if constexpr (A::kLoading) waiting_.push_back(std::make_unique<JoinedAttempt>());
      Attempt number = waiting_[i]->attempt;
      a(number, *waiting_[i]);
      if (i > 0 && waiting_[i]->attempt <= waiting_[i - 1]->attempt) {
        throw std::runtime_error("state is corrupt: its waiting attempts are not in order");
      }
    }
  }

 private:
  using List = std::deque<std::unique_ptr<JoinedAttempt>>;
  List::iterator place(Attempt attempt) {
    // Nearly always a new one, or the newest.
    if (waiting_.empty() || waiting_.back()->attempt < attempt) return waiting_.end();
    return std::lower_bound(waiting_.begin(), waiting_.end(), attempt,
                            [](const auto& one, Attempt wanted) { return one->attempt < wanted; });
  }

  List waiting_;
  std::unique_ptr<JoinedAttempt> spare_;
};

}  // namespace scalewatch::domain

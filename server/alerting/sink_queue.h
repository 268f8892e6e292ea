// What one sink is owed, in memory: which notice may be sent next, and when.
//
// Notices of one order (see Sink::order) form a chain: only its head is sent, so that a resolve never overtakes the firing
// that is being tried again. Chains are independent of each other. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/engine/ports/history_store.h"

namespace scalewatch::alerting {

class SinkQueue {
 public:
  struct Item {
    engine::OutboxRow row;
    std::uint32_t tries = 0;
  };

  [[nodiscard]] std::size_t size() const { return size_; }
  // Smallest created_ms; absent when empty.
  [[nodiscard]] std::optional<std::int64_t> oldest_ms() const;
  [[nodiscard]] bool has(const std::string& order) const { return chains_.contains(order); }

  // Times are steady milliseconds.
  void push(const std::string& order, Item item, std::int64_t now_ms);
  // The order of the next head that is due, which is in flight from now on until finish() or retry().
  std::optional<std::string> take(std::int64_t now_ms);
  [[nodiscard]] const Item& head(const std::string& order) const { return chains_.at(order).front(); }
  [[nodiscard]] bool followed(const std::string& order) const { return chains_.at(order).size() > 1; }
  // The head leaves; what follows is due at once.
  void finish(const std::string& order, std::int64_t now_ms);
  // The head is due again later.
  void retry(const std::string& order, std::uint32_t tries, std::int64_t due_ms);

  // All that waits is due now.
  void hurry(std::int64_t now_ms);
  // What is not in flight leaves.
  std::vector<engine::OutboxRow> drain();

  // A held order is not taken until as many releases.
  void hold(const std::string& order) { ++held_[order]; }
  void release(const std::string& order);

  // When the next head falls due after now_ms; the largest number when none does.
  [[nodiscard]] std::int64_t next_due_ms(std::int64_t now_ms) const;

 private:
  std::unordered_map<std::string, std::deque<Item>> chains_;
  std::set<std::pair<std::int64_t, std::string>> waiting_;  // (due, order) of heads that are not in flight
  std::unordered_map<std::string, int> held_;
  std::size_t size_ = 0;
};

}  // namespace scalewatch::alerting

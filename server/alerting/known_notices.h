// Which notices must not be taken from the store again: those in memory, and those that ended with an outcome that is not
// durable yet, for which the store still says that they are due. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/engine/ports/history_store.h"

namespace scalewatch::alerting {

class KnownNotices {
 public:
  [[nodiscard]] std::size_t size() const { return notices_.size(); }
  [[nodiscard]] bool contains(const engine::OutboxRow& row) const { return notices_.contains(id_of(row.key, row.sink)); }
  // It was put off, which is not durable yet.
  [[nodiscard]] bool put_off(const engine::OutboxRow& row) const {
    const auto found = notices_.find(id_of(row.key, row.sink));
    return found != notices_.end() && found->second && !found->second->delivered && found->second->given_up_ms == 0;
  }
  void queued(const engine::OutboxRow& row) { notices_[id_of(row.key, row.sink)] = std::nullopt; }
  // The notice leaves memory with this outcome.
  void settled(const engine::OutboxUpdate& update) { notices_[id_of(update.key, update.sink)] = update; }

  // It is the store's alone again.
  void forget(const engine::OutboxRow& row) { notices_.erase(id_of(row.key, row.sink)); }

  // These outcomes are durable: what they settled is known to the store now.
  void durable(const std::vector<engine::OutboxUpdate>& updates) {
    for (const engine::OutboxUpdate& update : updates) {
      const auto found = notices_.find(id_of(update.key, update.sink));
      if (found == notices_.end() || !found->second.has_value()) continue;
      const engine::OutboxUpdate& last = found->second.value();
      // An earlier, failed try of the same notice becomes durable on its own: that one settles nothing.
      if (update.delivered == last.delivered && update.tries == last.tries && update.next_try_ms == last.next_try_ms) {
        notices_.erase(found);
      }
    }
  }

 private:
  static std::string id_of(const std::string& key, const std::string& sink) { return sink + '\n' + key; }
  std::unordered_map<std::string, std::optional<engine::OutboxUpdate>> notices_;  // nothing: in memory
};

}  // namespace scalewatch::alerting

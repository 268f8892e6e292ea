// A store of alerts in memory, for tests of the alert book.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/engine/ports/alert_reader.h"

namespace scalewatch::alerting {

// What books commit, as a store keeps it.
class KeptAlerts : public engine::AlertReader {
 public:
  // Returns what is new in the outbox, as "sink transition".
  std::vector<std::string> commit(const engine::CommitBatch& batch) {
    std::vector<std::string> told;
    for (const auto& row : batch.alerts) {
      engine::AlertRow& stored = rows[row.id];
      if (row.changed_ms >= stored.changed_ms) stored = row;
    }
    for (const auto& row : batch.silences) silence_rows[row.id] = row;
    for (const auto& row : batch.outbox) {
      if (keys.insert(row.key + " " + row.sink).second) told.push_back(row.sink + " " + row.transition);
    }
    return told;
  }

  std::vector<engine::AlertRow> list(const Filter& filter, const std::optional<Cursor>& after, std::size_t) override {
    std::vector<engine::AlertRow> out;
    for (const auto& [id, row] : rows) {
      const bool of_state =
          filter.states.empty() || std::find(filter.states.begin(), filter.states.end(), row.state) != filter.states.end();
      if (!after && of_state && (!filter.run_uid || *filter.run_uid == row.run_uid)) out.push_back(row);
    }
    return out;
  }
  std::optional<engine::AlertRow> find(const std::string& id) override {
    const auto row = rows.find(id);
    return row == rows.end() ? std::nullopt : std::optional(row->second);
  }
  std::vector<v1::DeliveryStatus> deliveries(const std::string&) override { return {}; }
  std::vector<engine::SilenceRow> silences(std::int64_t, std::size_t) override {
    std::vector<engine::SilenceRow> out;
    for (const auto& [id, row] : silence_rows) out.push_back(row);
    return out;
  }
  std::vector<engine::AlertRow> fired_since(std::int64_t after_ms, std::size_t) override {
    std::vector<engine::AlertRow> out;
    for (const auto& [id, row] : rows) {
      if (row.fired_ms > after_ms) out.push_back(row);
    }
    return out;
  }
  std::vector<engine::DeadLetterRow> dead_letters(const DeadLetters&, std::size_t) override { return {}; }

  std::map<std::string, engine::AlertRow> rows;
  std::map<std::string, engine::SilenceRow> silence_rows;
  std::set<std::string> keys;  // of the outbox, with the sink
};

}  // namespace scalewatch::alerting

// What alerting reads of the store: alerts as they are now, and how their deliveries went.
//
// Thread-safe; never blocks a commit. All functions throw StoreError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

class AlertReader {
 public:
  struct Filter {
    std::optional<std::string> run_uid;  // absent: all runs
    std::vector<std::int32_t> states;    // scalewatch.v1.AlertState; empty: all states
    std::int32_t min_severity = 0;       // scalewatch.v1.Severity
  };
  // The last row of the page before, by the order of list(). Built from that row: {severity, fired_ms, id}.
  struct Cursor {
    std::int32_t severity = 0;
    std::int64_t fired_ms = 0;
    std::string id;
  };

  virtual ~AlertReader() = default;
  // Worst severity first, then newest fired_ms first, then by id. `after` absent: from the beginning.
  virtual std::vector<AlertRow> list(const Filter& filter, const std::optional<Cursor>& after, std::size_t limit) = 0;
  virtual std::optional<AlertRow> find(const std::string& id) = 0;
  // Of all sinks and transitions of an alert, oldest first; at most 1,000. Empty for an unknown alert.
  virtual std::vector<v1::DeliveryStatus> deliveries(const std::string& id) = 0;
  // That end at `after_ms` or later, latest end first.
  virtual std::vector<SilenceRow> silences(std::int64_t after_ms, std::size_t limit) = 0;
  // That fired after `after_ms`, whatever became of them, newest first.
  virtual std::vector<AlertRow> fired_since(std::int64_t after_ms, std::size_t limit) = 0;

  // Pages that sinks never took, newest given_up_ms first, then highest id; see DeadLetterRow.
  struct DeadLetters {
    std::string sink{};         // empty: all
    std::string key{};          // empty: all
    std::int64_t since_ms = 0;  // given up then or later
    // Only what comes after this row; absent: from the beginning.
    struct After {
      std::int64_t given_up_ms = 0;
      std::int64_t id = 0;
    };
    std::optional<After> after{};
  };
  virtual std::vector<DeadLetterRow> dead_letters(const DeadLetters& which, std::size_t limit) = 0;
};

}  // namespace scalewatch::engine

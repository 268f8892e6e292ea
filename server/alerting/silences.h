// The silences there are. Not thread-safe: the alert book guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/matchers.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::alerting {

class Silences {
 public:
  static constexpr std::size_t kMax = 1000;                      // that have not ended
  static constexpr std::size_t kMaxRegexes = 1024;               // of those that have not ended: 64 MiB of memory
  static constexpr std::size_t kMaxLoaded = 10'000;              // with those that have ended
  static constexpr std::int64_t kKeptMs = 7LL * 24 * 3'600'000;  // after its end one can still be listed
  static constexpr std::int64_t kMaxMs = 366LL * 24 * 3'600'000;
  static constexpr std::int64_t kClockMs = 10LL * 60'000;  // clocks are not further apart, nor corrected by more

  // What a request asks for, checked; throws std::invalid_argument.
  static v1::Silence checked(const v1::CreateSilenceRequest& request, std::int64_t now_ms);

  // Of the store; what can't be read is left out, and logged. Also replaces one of the same id.
  void load(const engine::SilenceRow& row, std::int64_t now_ms);
  // Throws std::length_error when the regular expressions in force become too many.
  void put(v1::Silence silence, std::int64_t now_ms);
  [[nodiscard]] bool full(std::int64_t now_ms) const;
  // Silences begin when they are made: one that begins later than kClockMs from now was made while the clock was ahead. It
  // begins now and lasts as long as was asked for. Returns those that changed.
  std::vector<v1::Silence> bring_back(std::int64_t now_ms);
  // Forgets those that ended kKeptMs ago and more, and the compiled matchers of all that ended.
  void prune(std::int64_t now_ms);

  // Null for an unknown id.
  [[nodiscard]] const v1::Silence* find(const std::string& id) const;
  // Of those that are in force and match, the one that ends last; null when there is none.
  [[nodiscard]] const v1::Silence* that_silences(const v1::Alert& alert, std::int64_t now_ms) const;
  // Whether the silence of that id takes the alert. Ended ones take none.
  [[nodiscard]] bool takes(const std::string& id, const v1::Alert& alert) const;
  // Soonest end first. ended: also those that are over.
  [[nodiscard]] std::vector<v1::Silence> list(std::int64_t now_ms, bool ended) const;
  // When the next one ends; absent when none is in force.
  [[nodiscard]] std::optional<std::int64_t> next_end(std::int64_t now_ms) const;

  static engine::SilenceRow row(const v1::Silence& silence);

 private:
  struct Entry {
    v1::Silence silence;
    Matchers matchers;  // empty once it has ended
    [[nodiscard]] bool takes(const v1::Alert& alert) const;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace scalewatch::alerting

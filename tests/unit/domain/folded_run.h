// One run as a server folds it, from the records of each report up; and how two such folds differ.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/domain/rank_state.h"
#include "server/domain/run_state.h"

namespace scalewatch::domain {

// Columns of a block of records, with the memory that they lie in.
struct RecordStore {
  RecordColumns columns;  // spans are set by view()
  std::vector<std::uint32_t> ids;
  std::vector<float> min, max, absmin;
  std::vector<double> sum, sum_sq;
  std::vector<std::uint64_t> numel, zero, subnormal, flushed;

  // Appends the record of a tensor; ids must rise.
  void add(std::uint32_t id, const Record& record, std::optional<std::uint32_t> first_bad_micro);
  [[nodiscard]] RecordColumns view() const;
};

// One rank's report before its rank-local state is folded.
struct RankReportInput {
  AttemptDigest head;
  std::vector<RecordStore> blocks;
};
using RunInput = std::variant<Input, RankReportInput>;

// A server's domain state of one run: that of its ranks, as their streams fold them, and that of the run.
class FoldedRun {
 public:
  FoldedRun();
  std::vector<FindingEvent> take(const RunInput& input);
  // As a restart does: all states through bytes.
  void reload();
  [[nodiscard]] std::string run_bytes() const { return run_.save(); }
  [[nodiscard]] std::string rank_bytes() const;

 private:
  std::map<Rank, RankState> ranks_;
  std::map<Rank, RankJoined> joined_;  // newest Hello of each
  RunState run_;
};

// Everything of the events, as bytes.
std::string bytes_of(std::vector<FindingEvent> events);

// Whose state or events differ first, in words: the name of a rule, or the part of the model.
std::string difference_of_states(std::string_view a, std::string_view b);
std::string difference_of_events(const std::vector<FindingEvent>& a, const std::vector<FindingEvent>& b);

}  // namespace scalewatch::domain

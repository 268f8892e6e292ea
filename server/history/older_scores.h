// Lists and pictures of many tensors over attempts that only a shared history has: of its scores, and of few records.
//
// Calls wait for the network, and throw what OlderHistory does. Not thread-safe.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "server/history/attempt_records.h"
#include "server/history/older_reading.h"
#include "server/history/score_groups.h"

namespace scalewatch::history {

class OlderScores {
 public:
  // Reads through `reader`, which is of the segment that `older` is of.
  // `wide`: attempts whose scores are there by hundreds too.
  OlderScores(OlderReading& older, const Catalog& catalog, ReportReader& reader, StoredRecords& stored, By::By by,
              std::vector<Interval> wide);

  // What of `attempts` is whole groups, and what is not. Where scores are added all is whole.
  [[nodiscard]] GroupSplit split(const std::vector<Interval>& attempts) const;

  // Scores of `attempts`, whole ones, in cells as OlderHistory::scores() has them, a cell maybe in parts. `tensors` in the
  // catalog; empty: all. `each`: see OlderRange.
  struct Cell {
    std::uint32_t tensor = 0;
    std::uint64_t cell = 0;
    double score = 0;
  };
  std::vector<Cell> read(const std::vector<Interval>& attempts, std::span<const std::uint32_t> tensors, std::uint64_t first,
                         std::uint64_t width, const std::vector<Interval>& each = {});

  using TakeRecord = std::function<void(std::uint32_t tensor, std::uint64_t attempt, const Measured&)>;
  struct Lead {
    std::size_t limit = 0;
    bool records = true;
    std::function<bool(std::uint32_t tensor)> takes;
    TakeRecord record;
    std::function<void(std::uint32_t tensor, double score)> score;
  };
  // The tensors that may be among the first `limit` by what they have in `attempts`, which are scored: calls score() for each
  // that `takes` says, with its own, and with `records` before it record() for those that lead it. Where scores are added,
  // every tensor may be, and no record is read. False when the time did not last.
  bool lead(const ReportRange& range, const std::vector<Interval>& attempts, const Lead& lead);
  // Of each of these tensors the records that lead it, others maybe too. False when the time did not last.
  bool read_best(const ReportRange& range, const std::vector<Interval>& attempts, std::span<const std::uint32_t> tensors,
                 const TakeRecord& take);

 private:
  // Some attempts of each of some tensors.
  struct Places {
    std::vector<std::uint32_t> tensors;
    std::vector<Interval> each;  // of the tensor in the same place; empty, for a question has an end: all of `attempts`
    std::vector<Interval> attempts;
  };
  static Places places_of(std::vector<std::uint32_t> tensors, std::vector<Interval> each);
  // Records there, merged. False when the time did not last.
  bool read_records(const ReportRange& range, const Places& places, const TakeRecord& take);
  // Where each of the tensors has its largest score: the newest such cell of `width` attempts.
  Places best_places(const Places& in, std::uint64_t width);
  [[nodiscard]] OlderHistory::Tensors named(std::span<const std::uint32_t> tensors) const;

  OlderReading& older_;
  const Catalog& catalog_;
  ReportReader& reader_;
  AttemptRecords merged_;
  const By::By by_;
  const std::vector<Interval> wide_;
  std::unordered_map<std::uint64_t, std::uint32_t> positions_;  // in the catalog, by key
};

}  // namespace scalewatch::history

// Rows of runs that only a shared history has: what the answers of history_api.h are made of where the store has none.
//
// Thread-safe. Every call may wait for the network, and throws StoreError, retryable when it can't be reached now.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/ports/history_store.h"
#include "server/history/chunk.h"
#include "server/history/intervals.h"
#include "server/history/measured.h"
#include "server/history/scaler_reader.h"
#include "server/history/scores.h"

namespace scalewatch::history {

// Attempts of a segment, both ends inclusive.
struct OlderRange {
  std::string run_uid;
  std::uint32_t segment = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::optional<std::uint32_t> rank;  // absent: all ranks
  std::vector<Interval> within{};     // only these of the attempts; empty: all
  bool with_records = false;          // only reports that have some
  std::vector<Interval> wide{};       // scores of these are there by hundreds too; joined
  std::vector<Interval> each{};       // of the first tensor only these attempts, of the second only those; empty: as within
};

// Which report of a rank: the first 8 bytes of its incarnation, as a little-endian number, and seq.
struct OlderKey {
  std::uint32_t rank = 0;
  std::uint64_t stream = 0;
  std::uint64_t seq = 0;
  auto operator<=>(const OlderKey&) const = default;
};

struct OlderReport {
  OlderKey key;
  std::uint64_t pos = 0;
  std::uint64_t attempt = 0;
  std::int64_t step = 0;
  std::int64_t time_ms = 0;
  bool retrospective = false;
  std::optional<double> loss;
  std::optional<double> lr;
  std::optional<double> grad_norm;
  std::optional<std::uint32_t> records;  // how many it had; absent: not told
  std::string rest;                      // the Report without its records' columns; empty when it could not be read
};

// Bytes of it as it was received, before it is read.
inline std::size_t likely_bytes(const OlderReport& report) {
  constexpr std::size_t kRecordBytes = 128;
  return report.rest.size() + report.records.value_or(0) * kRecordBytes;
}

// That a rank has reports of an attempt.
struct OlderPlace {
  std::uint64_t attempt = 0;
  std::uint32_t rank = 0;
  std::uint64_t pos = 0;  // of the first one that is not retrospective; kNoPlace: all are
};
inline constexpr std::uint64_t kNoPlace = UINT64_MAX;

struct OlderScaler {
  std::uint64_t attempt = 0;
  std::uint32_t scaler = 0;
  StoredScaler row;
};

struct OlderRecord {
  OlderKey key;
  std::uint64_t attempt = 0;
  std::uint32_t id = 0;  // by the incarnation's table
  bool retrospective = false;
  Measured measured;
};

// Many attempts of a tensor taken together.
struct OlderScore {
  std::uint64_t tensor = 0;  // as key_of() names it
  std::uint64_t cell = 0;
  double score = 0;  // the largest score() of its records (scores.h), of non-finite elements their sum
};

// Cells of equal width that a reader takes attempts together in, from its first attempt on.
struct AttemptGrid {
  std::uint64_t first = 0;
  std::uint64_t width = 1;
};

// A tensor's records of one client start within a cell, taken together as one after the other would be.
struct OlderSum {
  OlderKey key;  // without seq
  std::uint32_t id = 0;
  Interval attempts;  // both ends have a record
  TensorSummary sum;  // without places, norm and underflow
};
struct OlderSums {
  std::vector<OlderSum> sums;  // in order of attempts
  std::vector<Interval>
      untold;  // cells whose records must be read: an attempt has several there, or a retrospective one; joined
};

// What scores() tells of a range.
struct OlderCover {
  // Attempts that it does not tell right, joined: several reports may hold records of one tensor there, or they were stored
  // before there were scores.
  std::vector<Interval> unscored;
  std::vector<Interval> wide;  // of the others those that are there by hundreds too (score_groups.h); joined
};

class OlderHistory {
 public:
  virtual ~OlderHistory() = default;

  // Smallest and largest attempt of the range that has a report.
  virtual std::optional<std::pair<std::uint64_t, std::uint64_t>> bounds(const OlderRange& range) = 0;
  // Where there are reports, in order of attempt, rank; no more than `limit`, and then the last attempt may not be whole.
  virtual std::vector<OlderPlace> places(const OlderRange& range, std::size_t limit) = 0;
  // In order of attempt, rank, pos; no more than `limit`, and then the last attempt may not be whole.
  virtual std::vector<OlderReport> reports(const OlderRange& range, std::size_t limit) = 0;
  // These reports of a run as they were received: of those that are still there, for they are kept for some days alone.
  virtual std::map<OlderKey, std::string> payloads(const std::string& run_uid, const std::vector<OlderReport>& reports) = 0;
  // In order of attempt, rank, regular before retrospective, seq, id; each once. `tensors`: names with roles, one maybe several
  // times; empty: all. No more than `limit`, and then the last attempt may not be whole.
  using Tensors = std::vector<std::pair<std::string, int>>;
  virtual std::vector<OlderRecord> records(const OlderRange& range, const Tensors& tensors, std::size_t limit) = 0;
  // The same of one tensor in cells.
  virtual OlderSums sums(const OlderRange& range, const Tensors::value_type& tensor, const AttemptGrid& grid) = 0;
  // Of each attempt and scaler the lowest rank's newest observation, in order of both; of one scaler, or of all. No more than
  // `limit`, and then the last attempt may not be whole.
  virtual std::vector<OlderScaler> scalers(const OlderRange& range, std::optional<std::uint32_t> scaler, std::size_t limit) = 0;
  virtual OlderCover cover(const OlderRange& range) = 0;
  // Scores of single tensors in cells of `width` attempts from `first` on (0: all in one), of range.within alone. Unless by
  // adds, all of these are whole groups (score_groups.h), and the first attempt of one decides its cell. In no order; unless by
  // adds, a cell may come in parts.
  virtual std::vector<OlderScore> scores(const OlderRange& range, By::By by, const Tensors& tensors, std::uint64_t first,
                                         std::uint64_t width) = 0;
  [[nodiscard]] virtual std::uint64_t key_of(const std::string& name, int role) const = 0;
  // Logged inputs after a place, in order; fewer than `limit` are all.
  virtual std::vector<engine::InputRow> inputs(const std::string& run_uid, std::uint64_t after_pos, std::size_t limit) = 0;
};

}  // namespace scalewatch::history

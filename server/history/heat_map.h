// The cells of a heat map, and how they are filled from stretches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "server/history/catalog.h"
#include "server/history/intervals.h"
#include "server/history/report_reader.h"
#include "server/history/scores.h"
#include "server/history/segment_cover.h"
#include "server/history/stored_records.h"

namespace scalewatch::history {

// Columns of equal width over attempts.
struct HeatColumns {
  std::uint64_t first = 0;
  std::uint64_t width = 1;
  std::size_t count = 0;
};
// At most `most` over attempts `first` to `last`. Those as wide as a group of scores are made of whole groups, so that they are
// read from scores: they may begin a few attempts before `first` then.
HeatColumns heat_columns(std::uint64_t first, std::uint64_t last, std::size_t most);

// Of one tensor: the worst of each column.
class HeatRow {
 public:
  HeatRow(By::By by, const HeatColumns& columns);
  void put(std::uint64_t attempt, double value) { put_at(column(attempt), value); }
  void merge(std::uint64_t attempt, const Measured& measured);
  // A summary that spans columns stands in all of them.
  void put(const Interval& attempts, const TensorSummary& summary);
  [[nodiscard]] bool in_one_column(const Interval& attempts) const { return column(attempts.first) == column(attempts.last); }
  [[nodiscard]] const std::vector<double>& cells() const { return cells_; }

 private:
  [[nodiscard]] std::size_t column(std::uint64_t attempt) const { return (attempt - columns_.first) / columns_.width; }
  void put_at(std::size_t column, double value);

  const By::By by_;
  const HeatColumns columns_;
  std::vector<double> cells_;  // NaN: nothing
};

// Fills rows from the stretches of single streams: from scores, and from records where there are none or where a group is cut
// by the range or by what is merged. Not thread-safe.
class HeatReader {
 public:
  // `tensors` in the catalog, as many as `rows`.
  HeatReader(Reading& reading, const Catalog& catalog, By::By by, const ReportRange& range,
             std::span<const std::uint32_t> tensors, std::vector<HeatRow>& rows);
  // `whole_groups`: no column cuts a group. False, and the rest is not read, once `late` says so.
  bool read(const SegmentCover& cover, bool whole_groups, const std::function<bool()>& late);

 private:
  // A tensor in a stream's table.
  struct Wanted {
    std::uint32_t id = 0;
    std::uint64_t numel = 0;
    HeatRow* row = nullptr;
  };
  std::vector<Wanted> wanted_of(const std::vector<Catalog::Slot>& slots) const;
  void read_stretch(const StretchRow& stretch, const std::vector<Interval>& merged, bool whole_groups,
                    const std::vector<Wanted>& wanted);
  // Those whose scores could not be read.
  std::vector<Wanted> read_scores(const StretchRow& stretch, const std::vector<Wanted>& wanted);
  void read_records(const StretchRow& stretch, const Interval& inside, const std::vector<Interval>& merged,
                    const Wanted& wanted, bool taken);
  void read_summary(const StretchRow& stretch, const Wanted& wanted, const Interval& inside);

  Reading& reading_;
  const Catalog& catalog_;
  const By::By by_;
  const ReportRange range_;
  const std::span<const std::uint32_t> tensors_;
  std::vector<HeatRow>& rows_;
  StoredRecords stored_;
  // Of the stretch that is read.
  std::vector<std::uint64_t> attempts_;
  std::vector<std::uint64_t> groups_;
  std::vector<bool> usable_;  // of groups: none of it is cut away
  std::vector<double> shown_;
  TensorRows records_;
};

}  // namespace scalewatch::history

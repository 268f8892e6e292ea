// One request's view of what a shared history has of one segment. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scalewatch/v1/ingest.pb.h"
#include "server/history/catalog.h"
#include "server/history/older_history.h"
#include "server/history/report_reader.h"

namespace scalewatch::history {

// Of attempts that lie apart, how many pieces one question names.
inline constexpr std::size_t kPiecesAtOnce = 64;

class OlderReading {
 public:
  OlderReading(OlderHistory& history, Connection& connection, std::int64_t run, std::uint32_t segment);

  // Attempts before this one are read here; 0: none.
  [[nodiscard]] std::uint64_t floor() const { return floor_; }
  // The part of a range that is; absent: nothing of it.
  [[nodiscard]] std::optional<ReportRange> part(const ReportRange& range) const;

  // Only records of these are read from now on; empty: all. `attempts`: pages are of these alone; empty: of all.
  // `with_records`: and of reports that have some. `each`: see OlderRange.
  void only(OlderHistory::Tensors tensors, std::vector<Interval> attempts = {}, bool with_records = false,
            std::vector<Interval> each = {}) {
    each_ = std::move(each);
    tensors_ = std::move(tensors);
    attempts_ = std::move(attempts);
    with_records_ = with_records;
  }

  // Reports of a part from `first` on, a page of whole attempts, in order of attempt and rank; empty at the end. `records`:
  // theirs are read too. What the page before held is gone.
  std::vector<StoredReport> page(const ReportRange& part, std::uint64_t first, bool records);
  using Records = std::vector<std::pair<std::uint32_t, Measured>>;  // by id
  // Of a report of the newest page.
  const Records& records(const StoredReport& report) const;
  const v1::Report& rest(const StoredReport& report);
  // As it was received, when the page was read so; else null, and records() has them. Valid until the next call.
  const v1::Report* whole(const StoredReport& report);

  // A page of one tensor's records from `first` on, of whole attempts, in order; empty at the end. `within`: of these attempts
  // alone; empty: of all.
  std::vector<OlderRecord> tensor_page(const ReportRange& part, std::uint64_t first, const std::string& name, int role,
                                       const std::vector<Interval>& within);
  OlderSums tensor_sums(const ReportRange& part, const std::string& name, int role, const AttemptGrid& grid) {
    return history_.sums(range(part.first, part.last, part.rank), {name, role}, grid);
  }
  // streams.id of what a key says; absent: not known here.
  [[nodiscard]] std::optional<std::int64_t> stream_of(const OlderKey& key) const;

  // See OlderHistory.
  [[nodiscard]] OlderCover cover(const ReportRange& part) const { return history_.cover(range(part.first, part.last)); }
  [[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> bounds(std::uint64_t first, std::uint64_t last) const;
  // The first attempt from `attempt` on that has a report.
  [[nodiscard]] std::optional<std::uint64_t> next(std::uint64_t attempt) const;
  [[nodiscard]] OlderRange range(std::uint64_t first, std::uint64_t last, std::optional<std::uint32_t> rank = {}) const {
    return {run_uid_, segment_, first, last, rank, {}, false};
  }
  OlderHistory& history() { return history_; }

 private:
  OlderHistory& history_;
  std::string run_uid_;
  const std::uint32_t segment_;
  std::uint64_t floor_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::int64_t> streams_;
  // What a page is of.
  [[nodiscard]] OlderRange page_range(std::uint64_t first, std::uint64_t last, std::optional<std::uint32_t> rank) const;
  OlderHistory::Tensors tensors_;
  std::vector<Interval> attempts_;
  std::vector<Interval> each_;
  bool with_records_ = false;
  struct Held {
    std::string rest;
    Records records;
    std::string whole;
  };
  [[nodiscard]] std::map<OlderKey, std::string> payloads(const std::vector<OlderReport>& reports) const;
  std::vector<Held> page_;  // StoredReport::older - 1 is the place
  v1::Report parsed_;
  std::int64_t parsed_at_ = 0;
  v1::Report whole_;
  std::int64_t whole_at_ = 0;
};

}  // namespace scalewatch::history

// Stored reports in the order of attempts, a page at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/history/catalog.h"
#include "server/history/reading.h"

namespace scalewatch::history {

// What lists know of a report; its records come from StoredRecords.
struct StoredReport {
  std::int64_t id = 0;      // reports.id
  std::int64_t older = 0;   // > 0: of the shared history, and where in OlderReading's page
  std::int64_t stream = 0;  // streams.id
  std::uint32_t rank = 0;
  std::uint64_t attempt = 0;
  std::int64_t step = 0;
  std::int64_t time_ms = 0;
  bool retrospective = false;
  std::optional<double> loss;
  std::optional<double> lr;
  std::optional<double> grad_norm;
};

// Attempts `first` to `last` of a segment.
struct ReportRange {
  std::int64_t run = 0;
  std::uint32_t segment = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;             // inclusive
  std::optional<std::uint32_t> rank;  // absent: all ranks
};

// What one rank sent for one attempt: of its newest incarnation only, for a restarted rank repeats attempts. Retrospective
// reports come last; what the regular one holds goes before theirs.
using RankReports = std::vector<StoredReport>;

class ReportReader {
 public:
  // `deadline`: reading ends at the first attempt that begins after it; at least one attempt is read.
  ReportReader(Reading& reading, const Catalog& catalog, std::chrono::steady_clock::time_point deadline)
      : reading_(reading), catalog_(catalog), deadline_(deadline) {}

  // Calls `visit` in order of attempt, then rank. Returns the attempt to go on from; absent when all was read. `records`: false
  // where nobody asks for them.
  std::optional<std::uint64_t> read(const ReportRange& range, const std::function<void(const RankReports&)>& visit,
                                    bool records = true);

  [[nodiscard]] bool late() const { return std::chrono::steady_clock::now() >= deadline_; }

 private:
  struct Place {  // of the last row of a page
    std::uint64_t attempt = 0;
    std::int64_t rank = -1;
    std::int64_t id = -1;
  };
  std::optional<std::uint64_t> read_older(OlderReading& older, const ReportRange& part,
                                          const std::function<void(const RankReports&)>& visit, bool records);
  // Appends rows after `place` to `rows`; false when there are no more.
  bool read_page(const ReportRange& range, Place& place, std::vector<StoredReport>& rows);
  void keep_newest(RankReports& reports) const;

  Reading& reading_;
  const Catalog& catalog_;
  const std::chrono::steady_clock::time_point deadline_;
};

// Smallest and largest attempt of a segment; absent when there is no report.
struct AttemptBounds {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};
std::optional<AttemptBounds> attempt_bounds(ReadPool& pool, std::int64_t run, std::uint32_t segment);
// The smallest attempt from `attempt` on.
std::optional<std::uint64_t> attempt_from(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt);
// The largest attempt below `attempt`.
std::optional<std::uint64_t> attempt_before(Connection& connection, std::int64_t run, std::uint32_t segment,
                                            std::uint64_t attempt);

}  // namespace scalewatch::history

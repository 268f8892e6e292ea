#include "server/history/report_reader.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "server/history/older_reading.h"
#include "server/history/row_check.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kPageRows = 1024;
// Beyond it a number that was asked for would turn negative in SQLite, and be smaller than all.
constexpr std::uint64_t kMaxAttempt = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::optional<std::uint64_t> ReportReader::read(const ReportRange& range, const std::function<void(const RankReports&)>& visit,
                                                bool records) {
  std::uint64_t first = range.first;
  if (OlderReading* const older = reading_.older(range.run, range.segment)) {
    if (const auto part = older->part(range)) {
      if (const auto rest = read_older(*older, *part, visit, records)) return rest;
      if (part->last == range.last) return std::nullopt;
      first = part->last + 1;
      if (late()) return first;
    }
  }
  Place place{first, -1, -1};
  std::vector<StoredReport> rows;
  RankReports group;
  std::optional<std::uint64_t> current;  // attempt of the newest row
  const auto flush = [&] {
    if (group.empty()) return;
    keep_newest(group);
    visit(group);
    group.clear();
  };
  for (bool more = true; more;) {
    rows.clear();
    more = read_page(range, place, rows);
    for (auto& row : rows) {
      if (!group.empty() && (group.front().attempt != row.attempt || group.front().rank != row.rank)) flush();
      if (current && *current != row.attempt && late()) return row.attempt;
      current = row.attempt;
      group.push_back(std::move(row));
    }
  }
  flush();
  return std::nullopt;
}

std::optional<std::uint64_t> ReportReader::read_older(OlderReading& older, const ReportRange& part,
                                                      const std::function<void(const RankReports&)>& visit, bool records) {
  reading_.pause();
  for (std::uint64_t first = part.first; first <= part.last;) {
    if (first != part.first && late()) return first;
    const auto rows = older.page(part, first, records);
    if (rows.empty()) break;
    RankReports group;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      group.push_back(rows[i]);
      const bool ends = i + 1 == rows.size() || rows[i + 1].attempt != rows[i].attempt || rows[i + 1].rank != rows[i].rank;
      if (!ends) continue;
      keep_newest(group);
      visit(group);
      group.clear();
      if (i + 1 < rows.size() && rows[i + 1].attempt != rows[i].attempt && late()) return rows[i + 1].attempt;
    }
    first = rows.back().attempt + 1;
  }
  return std::nullopt;
}

bool ReportReader::read_page(const ReportRange& range, Place& place, std::vector<StoredReport>& rows) {
  static constexpr const char* kAll =
      "SELECT id, stream, rank, attempt, step, time_ms, retrospective, loss, lr, grad_norm, " SCALEWATCH_REPORT_CHECKED
      " "
      "FROM reports INDEXED BY reports_by_attempt WHERE run = ? AND segment = ? AND (attempt, rank, id) > (?, ?, ?) "
      "AND attempt <= ? ORDER BY attempt, rank, id";
  static constexpr const char* kOneRank =
      "SELECT id, stream, rank, attempt, step, time_ms, retrospective, loss, lr, grad_norm, " SCALEWATCH_REPORT_CHECKED
      " "
      "FROM reports INDEXED BY reports_by_attempt WHERE run = ? AND segment = ? AND (attempt, rank, id) > (?, ?, ?) "
      "AND attempt <= ? AND rank = ? ORDER BY attempt, rank, id";
  Query query(reading_.connection(), range.rank ? kOneRank : kAll, range.run, range.segment, place.attempt, place.rank,
              place.id, range.last);
  if (range.rank) query.bind(*range.rank);
  for (std::size_t count = 0; query.step(); ++count) {
    if (count > 0 && (count == kPageRows || reading_.page_over())) return true;
    place = {query.u64(3), query.i64(2), query.i64(0)};
    if (!row_is_whole(query, 10)) continue;  // verify tells; the others are worth showing
    auto& row = rows.emplace_back();
    row.id = query.i64(0);
    row.stream = query.i64(1);
    row.rank = query.u32(2);
    row.attempt = query.u64(3);
    row.step = query.i64(4);
    row.time_ms = query.i64(5);
    row.retrospective = query.i64(6) != 0;
    row.loss = query.number(7);
    row.lr = query.number(8);
    row.grad_norm = query.number(9);
  }
  return false;
}

void ReportReader::keep_newest(RankReports& reports) const {
  if (reports.size() == 1) return;
  const auto age = [&](const StoredReport& report) {
    const auto stream = catalog_.streams.find(report.stream);
    return std::make_pair(stream == catalog_.streams.end() ? 0 : stream->second.order, report.stream);
  };
  const auto newest =
      age(*std::max_element(reports.begin(), reports.end(), [&](const auto& a, const auto& b) { return age(a) < age(b); }));
  std::erase_if(reports, [&](const auto& report) { return age(report) != newest; });
  std::stable_partition(reports.begin(), reports.end(), [](const auto& report) { return !report.retrospective; });
}

std::optional<AttemptBounds> attempt_bounds(ReadPool& pool, std::int64_t run, std::uint32_t segment) {
  ReadPool::Lease lease(pool);
  // Two seeks; min and max in one SELECT would walk the index.
  Query query(*lease,
              "SELECT (SELECT min(attempt) FROM reports WHERE run = ?1 AND segment = ?2), "
              "(SELECT max(attempt) FROM reports WHERE run = ?1 AND segment = ?2)",
              run, segment);
  if (!query.step() || query.is_null(0)) return std::nullopt;
  return AttemptBounds{query.u64(0), query.u64(1)};
}

std::optional<std::uint64_t> attempt_from(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt) {
  if (attempt > kMaxAttempt) return std::nullopt;
  ReadPool::Lease lease(pool);
  Query query(*lease, "SELECT min(attempt) FROM reports WHERE run = ? AND segment = ? AND attempt >= ?", run, segment, attempt);
  if (!query.step() || query.is_null(0)) return std::nullopt;
  return query.u64(0);
}

std::optional<std::uint64_t> attempt_before(Connection& connection, std::int64_t run, std::uint32_t segment,
                                            std::uint64_t attempt) {
  Query query(connection, "SELECT max(attempt) FROM reports WHERE run = ? AND segment = ? AND attempt < ?", run, segment,
              std::min(attempt, kMaxAttempt));
  if (!query.step() || query.is_null(0)) return std::nullopt;
  return query.u64(0);
}

}  // namespace scalewatch::history

#include "server/history/segment_cover.h"

#include <map>

#include "server/history/keys.h"
#include "server/history/older_reading.h"
#include "server/history/stored_records.h"

namespace scalewatch::history {

namespace {

bool any_chunk(Connection& connection, std::int64_t stream, std::int64_t number) {
  Query query(connection, "SELECT 1 FROM chunks WHERE id BETWEEN ? AND ? LIMIT 1", chunk_key(stream, number, 0),
              chunk_key(stream, number, kMaxBlock));
  return query.step();
}

bool any_summary(Connection& connection, std::int64_t stream) {
  Query query(connection, "SELECT 1 FROM summaries WHERE id BETWEEN ? AND ? LIMIT 1", summary_key(stream, 0, 0),
              summary_key(stream, kMaxBlock, kMaxStretch));
  return query.step();
}

}  // namespace

SegmentCover cover(Reading& reading, const Catalog& catalog, const ReportRange& asked) {
  SegmentCover cover;
  ReportRange range = asked;
  if (OlderReading* const older = reading.older(asked.run, asked.segment)) {
    if (const auto part = older->part(asked)) {
      reading.pause();
      OlderCover older_cover = older->cover(*part);
      cover.merged = std::move(older_cover.unscored);
      cover.wide = std::move(older_cover.wide);
      cover.scored = without({part->first, part->last}, cover.merged);
      if (part->last == asked.last) return cover;
      range.first = part->last + 1;
    }
  }
  std::map<std::uint32_t, std::vector<StreamInterval>> by_rank;  // all stretches
  std::vector<StreamInterval> with_records;
  for (const auto& [stream, known] : catalog.streams) {
    const bool has_records = any_summary(reading.connection(), stream);
    auto& own = by_rank[known.rank];
    std::vector<SegmentCover::Stretch> found;
    std::vector<bool> thinned;
    {
      Query rows(
          reading.connection(),
          "SELECT number, first_attempt, last_attempt, thinned FROM stretches INDEXED BY stretches_by_stream WHERE stream = ? "
          "AND first_attempt <= ? AND last_attempt >= ?",
          stream, range.last, range.first);
      while (rows.step()) {
        found.push_back({stream, rows.i64(0), {rows.u64(1), rows.u64(2)}});
        thinned.push_back(rows.i64(3) != 0);
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& stretch = found[i];
      own.push_back({stretch.attempts, stream});
      // A rank that leaves statistics to another has stretches without records.
      if (!has_records || (!thinned[i] && !any_chunk(reading.connection(), stream, stretch.number))) continue;
      with_records.push_back({stretch.attempts, stream});
      cover.stretches.push_back(stretch);
    }
    const std::uint64_t after = stretched_seq(reading.connection(), stream);
    Query loose(reading.connection(),
                "SELECT min(attempt), max(attempt) FROM reports INDEXED BY reports_by_seq WHERE stream = ? AND seq > ? AND NOT "
                "retrospective AND attempt BETWEEN ? AND ?",
                stream, after, range.first, range.last);
    if (loose.step() && !loose.is_null(0)) cover.merged.push_back({loose.u64(0), loose.u64(1)});
  }
  {
    Query details(reading.connection(),
                  "SELECT attempt FROM reports INDEXED BY reports_retrospective WHERE run = ? AND segment = ? AND "
                  "retrospective = 1 AND attempt BETWEEN ? AND ?",
                  range.run, range.segment, range.first, range.last);
    while (details.step()) cover.merged.push_back({details.u64(0), details.u64(0)});
  }
  const auto take = [&](std::vector<Interval> found) { cover.merged.insert(cover.merged.end(), found.begin(), found.end()); };
  take(overlaps(std::move(with_records)));
  for (auto& [rank, own] : by_rank) take(overlaps(std::move(own)));
  cover.merged = joined(std::move(cover.merged));
  return cover;
}

}  // namespace scalewatch::history

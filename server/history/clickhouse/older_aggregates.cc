// What ClickHouse takes together of old attempts, so that few rows come for many.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/native.h"
#include "server/history/clickhouse/older.h"
#include "server/history/clickhouse/older_sql.h"
#include "server/history/clickhouse/score_rows.h"
#include "server/history/score_groups.h"

namespace scalewatch::clickhouse {

namespace {

// Of a group of records, in this order: what they are merged into (cuda/record/merge.h). Absent extremes are NaN in the
// columns, which a comparison with another value would keep or drop by chance.
const char* const kMerged =
    "sum(numel), sum(nans), sum(pos_inf), sum(neg_inf), sum(zero), sum(subnormal), sum(flushed), sum(over), "
    "countIf(NOT isNaN(min)), minIf(min, NOT isNaN(min)), countIf(NOT isNaN(max)), maxIf(max, NOT isNaN(max)), "
    "countIf(NOT isNaN(absmin_nonzero)), minIf(absmin_nonzero, NOT isNaN(absmin_nonzero)), sum(sum), sum(sum_sq), "
    "toUInt32(sum(micro_batches)), minIf(first_bad_micro, first_bad_micro > 0)";
// Of the finite magnitudes of a group the largest, whose headroom is the smallest.
const char* const kPeak = "toFloat32(maxIf(greatest(-min, max), isFinite(min) AND isFinite(max)))";

float extreme(RowReader& rows) {
  const bool any = rows.u64() > 0;
  const auto value = rows.get<float>();
  return any ? value : std::numeric_limits<float>::quiet_NaN();
}

history::Measured merged(RowReader& rows) {
  history::Measured measured;
  Record& record = measured.record;
  for (auto Record::*const count : {&Record::numel, &Record::nan, &Record::pos_inf, &Record::neg_inf, &Record::zero,
                                    &Record::subnormal, &Record::flushed, &Record::over}) {
    record.*count = rows.u64();
  }
  record.min = extreme(rows);
  record.max = extreme(rows);
  record.absmin_nonzero = extreme(rows);
  record.sum = rows.get<double>();
  record.sum_sq = rows.get<double>();
  measured.micro_batches = rows.u32();
  if (const std::uint32_t bad = rows.u32(); bad > 0) measured.first_bad_micro = bad - 1;
  return measured;
}

history::TensorSummary summary_of(std::uint64_t records, const history::Measured& total, float peak) {
  history::TensorSummary sum;
  sum.records = static_cast<std::uint32_t>(records);
  sum.total = total;
  sum.scale_low = sum.scale_high = total.scale;
  history::Measured highest;
  highest.record.min = -peak;
  highest.record.max = peak;
  highest.target = total.target;
  sum.headroom = history::headroom_of(highest);
  sum.worst = peak;
  sum.worst_target = total.target;
  return sum;
}

}  // namespace

// By scale and target too, for under those records merge as they were stored. Sums of as many values as a cell has are exact in
// any order while the largest is within 2^29 of the smallest, for they have 24 bits; beyond, the last of these may be another
// one.
history::OlderSums Older::sums(const history::OlderRange& range, const Tensors::value_type& tensor,
                               const history::AttemptGrid& grid) {
  const std::string from = " FROM records WHERE " + where(range) + are_named({tensor});
  const std::string cell_of =
      "SELECT toUInt64(intDiv(attempt - " + std::to_string(grid.first) + ", " + std::to_string(grid.width) + ")) AS cell, ";
  struct Cell {
    std::uint64_t records = 0;
    bool told = false;
    std::vector<history::OlderSum> sums;  // by scale and target
  };
  std::map<std::uint64_t, Cell> cells;
  const std::string answer =
      query(cell_of +
            "measured_under_scale, target, count(), min(attempt), max(attempt), min(rank), max(rank), min(stream), "
            "max(stream), min(id), max(id), " +
            kPeak + ", " + kMerged + from + " GROUP BY cell, measured_under_scale, target");
  for (RowReader rows(answer); !rows.done();) {
    Cell& cell = cells[rows.u64()];
    history::OlderSum one;
    const auto scale = rows.get<double>();
    const auto target = static_cast<DType>(rows.get<std::uint8_t>());
    const std::uint64_t count = rows.u64();
    one.attempts.first = rows.u64();
    one.attempts.last = rows.u64();
    one.key.rank = rows.u32();
    bool alone = rows.u32() == one.key.rank;
    one.key.stream = rows.u64();
    alone = rows.u64() == one.key.stream && alone;
    one.id = rows.u32();
    alone = rows.u32() == one.id && alone;
    const auto peak = rows.get<float>();
    history::Measured total = merged(rows);
    total.scale = scale;
    total.target = target;
    one.sum = summary_of(count, total, peak);
    // Beyond double's range, or beside what is no number, the order of addition tells what comes out.
    alone = alone && std::isfinite(total.record.sum) && std::isfinite(total.record.sum_sq);
    cell.told = alone && (cell.told || cell.sums.empty());
    cell.records += count;
    cell.sums.push_back(std::move(one));
  }
  // Neither a row that is there twice nor two records of one attempt may be taken together.
  const std::string check = query(cell_of + "count(), uniqExact(attempt), max(retrospective)" + from + " GROUP BY cell");
  for (RowReader rows(check); !rows.done();) {
    Cell& cell = cells[rows.u64()];
    const std::uint64_t records = rows.u64();
    const std::uint64_t attempts = rows.u64();
    const bool retrospective = rows.get<std::uint8_t>() != 0;
    cell.told = cell.told && !retrospective && records == attempts && records == cell.records;
  }
  history::OlderSums found;
  for (auto& [number, cell] : cells) {
    if (!cell.told) {
      const std::uint64_t first = grid.first + number * grid.width;
      found.untold.push_back({std::max(range.first, first), std::min(range.last, first + grid.width - 1)});
      continue;
    }
    std::sort(cell.sums.begin(), cell.sums.end(),
              [](const auto& a, const auto& b) { return a.attempts.first < b.attempts.first; });
    std::move(cell.sums.begin(), cell.sums.end(), std::back_inserter(found.sums));
  }
  found.untold = history::joined(std::move(found.untold));
  return found;
}

// As the store's own cover (segment_cover.h): streams with records side by side, a rank that started again, retrospective ones.
history::OlderCover Older::cover(const history::OlderRange& range) {
  constexpr std::size_t kMostCuts = 500;
  enum Kind : std::uint8_t { kNone, kNarrow, kBefore, kWide };
  const std::string answer =
      query("SELECT rank, stream, kind, min(attempt), max(attempt) FROM (SELECT rank, stream, attempt, multiIf(records = " +
            std::to_string(kUnscored) + ", 2, records = 0, 0, wide_scores > 0, 3, 1) AS kind FROM reports WHERE " +
            where(range) + " AND retrospective = 0) GROUP BY rank, stream, kind ORDER BY rank, stream, kind");
  std::vector<history::StreamInterval> with_records;
  std::map<std::uint32_t, std::vector<history::StreamInterval>> by_rank;
  std::vector<history::Interval> cuts;
  std::vector<history::Interval> narrow;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::int64_t> numbers;  // of streams
  for (RowReader rows(answer); !rows.done();) {
    const std::uint32_t rank = rows.u32();
    const std::uint64_t stream = rows.u64();
    const auto kind = rows.get<std::uint8_t>();
    const std::uint64_t first = rows.u64();
    const history::StreamInterval part{
        {first, rows.u64()}, numbers.try_emplace({rank, stream}, static_cast<std::int64_t>(numbers.size())).first->second};
    by_rank[rank].push_back(part);
    if (kind != kNone) with_records.push_back(part);
    if (kind == kBefore) cuts.push_back(part.attempts);
    if (kind == kNarrow) narrow.push_back(part.attempts);
  }
  const auto take = [&](std::vector<history::Interval> found) { cuts.insert(cuts.end(), found.begin(), found.end()); };
  take(history::overlaps(std::move(with_records)));
  for (auto& [rank, own] : by_rank) take(history::overlaps(std::move(own)));
  const std::string details = query("SELECT DISTINCT attempt FROM reports WHERE " + where(range) +
                                    " AND retrospective = 1 ORDER BY attempt" + limited(kMostCuts));
  for (RowReader rows(details); !rows.done();) {
    const std::uint64_t attempt = rows.u64();
    cuts.push_back({attempt, attempt});
  }
  cuts = history::joined(std::move(cuts));
  if (cuts.size() >= kMostCuts) return {{{range.first, range.last}}, {}};
  history::OlderCover cover{std::move(cuts), {}};
  narrow.insert(narrow.end(), cover.unscored.begin(), cover.unscored.end());
  cover.wide = history::without({range.first, range.last}, history::joined(std::move(narrow)));
  return cover;
}

std::vector<history::OlderScore> Older::scores(const history::OlderRange& range, history::By::By by, const Tensors& tensors,
                                               std::uint64_t first, std::uint64_t width) {
  const auto cell_of = [&](const std::string& attempt) {
    if (width == 0) return std::string("toUInt64(0)");
    return "intDiv(" + attempt + " - " + std::to_string(first) + ", " + std::to_string(width) + ")";
  };
  std::vector<history::OlderScore> scores;
  if (history::adds(by)) {
    // Each once, however often it was sent.
    const std::string answer = query("SELECT tensor, toUInt64(" + cell_of("attempt") +
                                     ") AS cell, sum(one) FROM (SELECT tensor, attempt, any(bad) AS one FROM "
                                     "non_finite WHERE " +
                                     where(range) + are_named(range, tensors, "attempt", [](auto attempt) { return attempt; }) +
                                     " GROUP BY tensor, attempt, rank, stream, seq, id) GROUP BY tensor, cell");
    for (RowReader rows(answer); !rows.done();) {
      const std::uint64_t tensor = rows.u64();
      const std::uint64_t cell = rows.u64();
      scores.push_back({tensor, cell, static_cast<double>(rows.u64())});
    }
    return scores;
  }
  // Hundreds that lie in one cell, and tens of what is left.
  std::vector<history::Interval> hundreds;
  if (width % history::kWideAttempts == 0 && (width == 0 || first % history::kWideAttempts <= 1)) {
    hundreds = history::split_groups(history::common(range.within, range.wide), history::kWideAttempts).whole;
  }
  std::vector<history::Interval> tens;
  for (const auto& piece : range.within) {
    for (const auto& part : history::without(piece, hundreds)) tens.push_back(part);
  }
  read_scores(range, by, tensors, tens, history::kGroupAttempts, width == 0, cell_of, scores);
  read_scores(range, by, tensors, hundreds, history::kWideAttempts, width == 0, cell_of, scores);
  return scores;
}

// Millions of rows are grouped, by one number where all go into one cell: that takes half of the time. Tensors that differ in
// the three bits alone that the target is put over would be one; their numbers are hashes.
void Older::read_scores(const history::OlderRange& range, history::By::By by, const Tensors& tensors,
                        const std::vector<history::Interval>& groups, std::uint64_t width, bool one_cell,
                        const std::function<std::string(const std::string&)>& cell_of,
                        std::vector<history::OlderScore>& scores) {
  if (groups.empty()) return;
  const Stat stat = stat_of(by);
  const std::string last = std::to_string(width);
  const std::string offset = std::to_string(width - 1);
  const auto number = [&](std::uint64_t attempt) { return history::group_of(attempt, width); };
  const std::string cell = cell_of("(greatest(grp * " + last + ", " + offset + ") - " + offset + ")");
  const std::string answer =
      query("SELECT bitXor(tensor, bitShiftLeft(toUInt64(target), 61)) AS tensor_of_target, any(target), " +
            (one_cell ? cell : "toUInt64(" + cell + ") AS cell") + ", max(score) FROM scores WHERE " + segment_is(range) +
            " AND stat = " + std::to_string(stored_as(stat, width)) +
            (range.each.empty() ? " AND " + in_any("grp", groups, number) : "") + are_named(range, tensors, "grp", number) +
            " GROUP BY tensor_of_target" + (one_cell ? "" : ", cell"));
  for (RowReader rows(answer); !rows.done();) {
    const std::uint64_t both = rows.u64();
    const auto target = rows.get<std::uint8_t>();
    const std::uint64_t in_cell = rows.u64();
    scores.push_back({both ^ std::uint64_t{target} << 61U, in_cell, score_of(stat, target, rows.u64())});
  }
}

}  // namespace scalewatch::clickhouse

// Many tensors over attempts at once, for a picture.
#include <algorithm>
#include <vector>

#include "server/history/api_impl.h"
#include "server/history/attempt_records.h"
#include "server/history/heat_map.h"
#include "server/history/older_scores.h"
#include "server/history/page_token.h"
#include "server/history/score_groups.h"

namespace scalewatch::history {

namespace {

// Attempts that several streams share, or that are not in chunks: each report is read once for all tensors.
class MergedAttempts {
 public:
  MergedAttempts(Reading& reading, const Catalog& catalog, ReportReader& reader, const std::vector<std::uint32_t>& tensors,
                 std::vector<HeatRow>& rows)
      : reading_(reading), reader_(reader), tensors_(tensors), rows_(rows), stored_(reading), records_(catalog, stored_) {
    for (const auto tensor : tensors)
      names_.emplace_back(catalog.tensors[tensor].info.name(), catalog.tensors[tensor].info.role());
  }

  // False when the time did not last.
  bool read(const ReportRange& range, const std::vector<Interval>& merged) {
    std::uint64_t first = range.first;
    if (OlderReading* const older = reading_.older(range.run, range.segment)) {
      first = std::max(first, older->floor());
      if (range.first < first && !read_older(*older, range, common({{range.first, first - 1}}, merged))) return false;
    }
    for (const auto& interval : merged) {
      ReportRange part = range;
      part.first = std::max(first, interval.first);
      part.last = std::min(range.last, interval.last);
      if (part.first <= part.last && !read_part(part)) return false;
    }
    return true;
  }

 private:
  // Many pieces with a few questions.
  bool read_older(OlderReading& older, const ReportRange& range, const std::vector<Interval>& merged) {
    for (std::size_t i = 0; i < merged.size(); i += kPiecesAtOnce) {
      const auto begin = merged.begin() + static_cast<std::ptrdiff_t>(i);
      const std::vector<Interval> pieces(begin,
                                         begin + static_cast<std::ptrdiff_t>(std::min(kPiecesAtOnce, merged.size() - i)));
      older.only(names_, pieces, true);
      ReportRange part = range;
      part.first = pieces.front().first;
      part.last = std::min(range.last, pieces.back().last);
      if (!read_part(part)) return false;
    }
    return true;
  }
  bool read_part(const ReportRange& part) {
    if (any_ && reader_.late()) return false;
    any_ = true;
    std::uint64_t attempt = 0;
    const auto close = [&] {
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (!records_.of(tensors_[i]).empty()) rows_[i].merge(attempt, records_.of(tensors_[i]).total());
      }
      records_.clear();
    };
    const auto rest = reader_.read(part, [&](const RankReports& reports) {
      if (reports.front().attempt != attempt) close();
      attempt = reports.front().attempt;
      records_.add(reports);
    });
    close();
    return !rest;
  }

  Reading& reading_;
  ReportReader& reader_;
  const std::vector<std::uint32_t>& tensors_;
  std::vector<HeatRow>& rows_;
  StoredRecords stored_;
  AttemptRecords records_;
  OlderHistory::Tensors names_;
  bool any_ = false;  // was read
};

}  // namespace

engine::Status Api::get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) {
  return guard(response, [&] { do_get_heat_map(request, response); });
}

void Api::do_get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) {
  const std::size_t tensors = checked_limit("max_tensors", request.max_tensors(), 50, 1000);
  const std::size_t columns = checked_limit("max_columns", request.max_columns(), 100, 2000);
  if (!By::By_IsValid(request.by())) invalid("by", std::to_string(request.by()) + " is not a statistic");
  const StoredRun run = run_named(request.run());
  Reading reading(pool_, older_);
  const auto span = span_of(reading, run, request.range());
  if (!span) return;
  const auto catalog = catalogs_.get(run.id, span->segment);
  const ReportRange range{run.id, span->segment, span->first, span->last, {}};
  const SegmentCover covered = cover(reading, *catalog, range);
  std::vector<std::uint32_t> rows;
  if (!request.tensor_contains().empty()) {
    for (std::uint32_t i = 0; i < catalog->tensors.size() && rows.size() < tensors; ++i) {
      const auto& info = catalog->tensors[i].info;
      if (request.role() != v1::ROLE_UNSPECIFIED && info.role() != request.role()) continue;
      if (info.name().find(request.tensor_contains()) != std::string::npos) rows.push_back(i);
    }
  } else {
    std::uint64_t reached = 0;
    for (const auto& top :
         leading({request.by(), request.role(), tensors, false, range}, *catalog, covered, reading, reached)) {
      rows.push_back(top.tensor);
    }
    std::sort(rows.begin(), rows.end());
  }
  const HeatColumns shape = heat_columns(span->first, span->last, columns);
  response.mutable_range()->set_segment(span->segment);
  response.mutable_range()->set_first(shape.first);
  response.mutable_range()->set_last(span->last);
  response.set_column_attempts(shape.width);
  std::vector<HeatRow> cells(rows.size(), HeatRow(request.by(), shape));
  ReportReader reader(reading, *catalog, deadline());
  const bool whole_groups = shape.width % kGroupAttempts == 0;
  ReportRange local = range;
  std::vector<Interval> merged = covered.merged;
  if (OlderReading* const older = reading.older(range.run, range.segment)) {
    local.first = std::max(local.first, older->floor());
    if (!covered.scored.empty() && !rows.empty()) {
      reading.pause();
      StoredRecords stored(reading);
      OlderScores scores(*older, *catalog, reader, stored, request.by(), covered.wide);
      GroupSplit parts{{}, covered.scored};
      if (whole_groups || adds(request.by())) parts = scores.split(covered.scored);
      merged.insert(merged.end(), parts.edges.begin(), parts.edges.end());
      for (const auto& cell : scores.read(parts.whole, rows, shape.first, shape.width)) {
        const auto row = std::lower_bound(rows.begin(), rows.end(), cell.tensor) - rows.begin();
        cells[static_cast<std::size_t>(row)].put(shape.first + cell.cell * shape.width, told(request.by(), cell.score));
      }
    }
  }
  merged = joined(std::move(merged));
  response.set_truncated(!MergedAttempts(reading, *catalog, reader, rows, cells).read(range, merged));
  HeatReader stretches(reading, *catalog, request.by(), local, rows, cells);
  if (!stretches.read(covered, whole_groups, [&] { return reader.late(); })) response.set_truncated(true);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& out = *response.add_rows();
    *out.mutable_info() = catalog->tensors[rows[i]].info;
    out.mutable_cells()->Add(cells[i].cells().begin(), cells[i].cells().end());
  }
}

}  // namespace scalewatch::history

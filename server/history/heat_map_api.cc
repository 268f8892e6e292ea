// Many tensors over attempts at once, for a picture.
#include <algorithm>
#include <limits>
#include <vector>

#include "server/history/api_impl.h"
#include "server/history/attempt_records.h"
#include "server/history/older_reading.h"
#include "server/history/page_token.h"
#include "server/history/scores.h"
#include "server/history/segment_cover.h"
#include "server/history/tensor_series.h"

namespace scalewatch::history {

namespace {

// One tensor's cells. What must be merged over streams comes attempt by attempt, the rest from each stream's stretches.
class Row final : public TensorSeries::Sink {
 public:
  Row(By::By by, std::uint64_t first, std::uint64_t width, std::size_t columns, const std::vector<Interval>& merged)
      : by_(by), first_(first), width_(width), merged_(merged), cells_(columns, std::numeric_limits<float>::quiet_NaN()) {}

  std::optional<Need> need() override { return need_of(by_); }
  bool takes_summary(std::uint64_t first, std::uint64_t last) override {
    return column(first) == column(last) && !touches({first, last}, merged_);
  }
  void summary(std::uint64_t first, std::uint64_t last, const TensorSummary& summary) override {
    // One that was thinned may span columns: it stands in all of them.
    for (std::size_t at = column(first); at <= column(last); ++at) put(at, score_bound(by_, summary));
  }
  void record(std::uint64_t attempt, const Measured& measured) override {
    if (!touches({attempt, attempt}, merged_)) merge(attempt, measured);
  }
  void merge(std::uint64_t attempt, const Measured& measured) { put(column(attempt), score(by_, measured)); }
  [[nodiscard]] const std::vector<float>& cells() const { return cells_; }

 private:
  [[nodiscard]] std::size_t column(std::uint64_t attempt) const { return (attempt - first_) / width_; }
  void put(std::size_t at, std::optional<double> value) {
    if (!value || at >= cells_.size()) return;
    float& cell = cells_[at];
    const auto now = static_cast<float>(told(by_, *value));
    if (cell != cell) {
      cell = now;
    } else if (adds(by_)) {
      cell += now;
    } else {
      // A headroom is worse when it is smaller, all else when it is larger.
      cell = told(by_, 1) < 0 ? std::min(cell, now) : std::max(cell, now);
    }
  }

  const By::By by_;
  const std::uint64_t first_;
  const std::uint64_t width_;
  const std::vector<Interval>& merged_;
  std::vector<float> cells_;
};

// Attempts that several streams share, or that are not in chunks: each report is read once for all tensors. False when the time
// did not last.
bool merge_attempts(Reading& reading, const Catalog& catalog, ReportReader& reader, ReportRange range,
                    const std::vector<Interval>& merged, const std::vector<std::uint32_t>& tensors, std::vector<Row>& rows) {
  StoredRecords stored(reading);
  AttemptRecords records(catalog, stored);
  for (const auto& interval : merged) {
    std::uint64_t attempt = 0;
    const auto close = [&] {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!records.of(tensors[i]).empty()) rows[i].merge(attempt, records.of(tensors[i]).total());
      }
      records.clear();
    };
    ReportRange part = range;
    part.first = std::max(range.first, interval.first);
    part.last = std::min(range.last, interval.last);
    const auto rest = reader.read(part, [&](const RankReports& reports) {
      if (reports.front().attempt != attempt) close();
      attempt = reports.front().attempt;
      records.add(reports);
    });
    close();
    if (rest) return false;
  }
  return true;
}

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
  std::vector<std::uint32_t> rows;
  if (!request.tensor_contains().empty()) {
    for (std::uint32_t i = 0; i < catalog->tensors.size() && rows.size() < tensors; ++i) {
      const auto& info = catalog->tensors[i].info;
      if (request.role() != v1::ROLE_UNSPECIFIED && info.role() != request.role()) continue;
      if (info.name().find(request.tensor_contains()) != std::string::npos) rows.push_back(i);
    }
  } else {
    std::uint64_t reached = 0;
    for (const auto& top : leading({request.by(), request.role(), tensors, range}, *catalog, reading, reached)) {
      rows.push_back(top.tensor);
    }
    std::sort(rows.begin(), rows.end());
  }
  const std::uint64_t width = (span->last - span->first) / columns + 1;
  response.mutable_range()->set_segment(span->segment);
  response.mutable_range()->set_first(span->first);
  response.mutable_range()->set_last(span->last);
  response.set_column_attempts(width);
  const SegmentCover covered = cover(reading, *catalog, range);
  std::vector<Row> cells;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    cells.emplace_back(request.by(), span->first, width, (span->last - span->first) / width + 1, covered.merged);
  }
  ReportReader reader(reading, *catalog, deadline());
  ReportRange local = range;
  if (OlderReading* const older = reading.older(range.run, range.segment)) {
    OlderHistory::Tensors wanted;
    for (const auto tensor : rows)
      wanted.emplace_back(catalog->tensors[tensor].info.name(), catalog->tensors[tensor].info.role());
    older->only(std::move(wanted));
    local.first = std::max(local.first, older->floor());
  }
  response.set_truncated(!merge_attempts(reading, *catalog, reader, range, covered.merged, rows, cells));
  std::vector<TensorSeries> series;
  for (const auto tensor : rows) series.emplace_back(reading, *catalog, tensor);
  if (!TensorSeries::read_pieces(
          series, local, [&](std::size_t i) -> TensorSeries::Sink& { return cells[i]; }, [&] { return reader.late(); })) {
    response.set_truncated(true);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& out = *response.add_rows();
    *out.mutable_info() = catalog->tensors[rows[i]].info;
    out.mutable_cells()->Add(cells[i].cells().begin(), cells[i].cells().end());
  }
}

}  // namespace scalewatch::history

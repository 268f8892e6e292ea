#include "server/history/heat_map.h"

#include <algorithm>
#include <limits>

#include "server/history/keys.h"
#include "server/history/score_groups.h"

namespace scalewatch::history {

HeatColumns heat_columns(std::uint64_t first, std::uint64_t last, std::size_t most) {
  std::uint64_t width = (last - first) / most + 1;
  if (width >= kGroupAttempts) {
    const std::uint64_t groups = group_of(last) - group_of(first) + 1;
    width = ((groups - 1) / most + 1) * kGroupAttempts;
    first = group_begin(group_of(first));
    if (width >= 2 * kWideAttempts) {
      // Of many attempts whole hundreds: what a shared history takes together.
      const std::uint64_t hundreds = group_of(last, kWideAttempts) - group_of(first, kWideAttempts) + 1;
      width = ((hundreds - 1) / most + 1) * kWideAttempts;
      first = group_begin(group_of(first, kWideAttempts), kWideAttempts);
    }
  }
  return {first, width, static_cast<std::size_t>((last - first) / width + 1)};
}

HeatRow::HeatRow(By::By by, const HeatColumns& columns)
    : by_(by), columns_(columns), cells_(columns.count, std::numeric_limits<double>::quiet_NaN()) {}

void HeatRow::merge(std::uint64_t attempt, const Measured& measured) {
  if (const auto value = score(by_, measured)) put(attempt, told(by_, *value));
}

void HeatRow::put(const Interval& attempts, const TensorSummary& summary) {
  const auto value = score_bound(by_, summary);
  if (!value) return;
  // A stretch may go on far beyond the picture: attempts jump.
  const std::size_t last = std::min(column(attempts.last), cells_.size() - 1);
  for (std::size_t at = column(attempts.first); at <= last; ++at) put_at(at, told(by_, *value));
}

void HeatRow::put_at(std::size_t column, double value) {
  if (value != value || column >= cells_.size()) return;
  double& cell = cells_[column];
  if (cell != cell) {
    cell = value;
  } else if (adds(by_)) {
    cell += value;
  } else {
    // A headroom is worse when it is smaller, all else when it is larger.
    cell = told(by_, 1) < 0 ? std::min(cell, value) : std::max(cell, value);
  }
}

HeatReader::HeatReader(Reading& reading, const Catalog& catalog, By::By by, const ReportRange& range,
                       std::span<const std::uint32_t> tensors, std::vector<HeatRow>& rows)
    : reading_(reading), catalog_(catalog), by_(by), range_(range), tensors_(tensors), rows_(rows), stored_(reading) {}

std::vector<HeatReader::Wanted> HeatReader::wanted_of(const std::vector<Catalog::Slot>& slots) const {
  std::vector<HeatRow*> row_of(catalog_.tensors.size(), nullptr);
  for (std::size_t i = 0; i < tensors_.size(); ++i) row_of[tensors_[i]] = &rows_[i];
  std::vector<Wanted> wanted;
  for (std::uint32_t id = 0; id < slots.size(); ++id) {
    const auto tensor = slots[id].tensor;
    if (tensor != Catalog::kNone && row_of[tensor] != nullptr) wanted.push_back({id, slots[id].numel, row_of[tensor]});
  }
  return wanted;
}

bool HeatReader::read(const SegmentCover& cover, bool whole_groups, const std::function<bool()>& late) {
  std::int64_t stream = -1;
  std::vector<Wanted> wanted;
  for (const auto& stretch : cover.stretches) {
    if (late()) return false;
    if (stretch.attempts.last < range_.first || stretch.attempts.first > range_.last) continue;
    if (stretch.stream != stream) {
      stream = stretch.stream;
      wanted = wanted_of(*catalog_.streams.at(stream).slots);
    }
    if (wanted.empty()) continue;
    if (const auto row = stretch_numbered(reading_.connection(), stream, stretch.number)) {
      read_stretch(*row, cover.merged, whole_groups, wanted);
    }
  }
  return true;
}

void HeatReader::read_stretch(const StretchRow& stretch, const std::vector<Interval>& merged, bool whole_groups,
                              const std::vector<Wanted>& wanted) {
  const Interval inside{std::max(stretch.first, range_.first), std::min(stretch.last, range_.last)};
  attempts_.clear();
  for (std::size_t place = 0; place < stretch.reports; ++place) attempts_.push_back(stretch.attempt(place));
  groups_ = groups_of(attempts_);
  usable_.clear();
  for (const std::uint64_t group : groups_) {
    const Interval own{std::max(group_begin(group), stretch.first), std::min(group_end(group), stretch.last)};
    usable_.push_back(whole_groups && own.first >= inside.first && own.last <= inside.last && !touches(own, merged));
  }
  const bool any = std::find(usable_.begin(), usable_.end(), true) != usable_.end();
  const bool all = std::find(usable_.begin(), usable_.end(), false) == usable_.end();
  const auto without = any ? read_scores(stretch, wanted) : wanted;
  for (const auto& one : without) read_records(stretch, inside, merged, one, false);
  if (all || !any) return;
  for (const auto& one : wanted) {
    const bool read = std::any_of(without.begin(), without.end(), [&](const Wanted& other) { return other.id == one.id; });
    if (!read) read_records(stretch, inside, merged, one, true);
  }
}

std::vector<HeatReader::Wanted> HeatReader::read_scores(const StretchRow& stretch, const std::vector<Wanted>& wanted) {
  std::vector<Wanted> without;
  for (std::size_t i = 0; i < wanted.size();) {
    const std::uint32_t part = wanted[i].id / kScoreTensors;
    Query row(reading_.connection(), "SELECT frames FROM scores WHERE id = ?",
              scores_key(stretch.stream, stretch.number, std::min(wanted[i].id, kMaxScored)));
    const bool found = wanted[i].id <= kMaxScored && row.step();
    const std::string_view blob = found ? row.view(0) : std::string_view();
    for (; i < wanted.size() && wanted[i].id / kScoreTensors == part; ++i) {
      const auto frame = frame_of(blob, wanted[i].id % kScoreTensors);
      // No record: of a row that is whole, for a frame's own check does not cover where it lies.
      if (found && frame.empty() && seal_of_chunk(blob) == Seal::kWhole) continue;
      if (!found || !history::read_scores(frame, groups_.size(), by_, shown_)) {
        without.push_back(wanted[i]);
        continue;
      }
      for (std::size_t group = 0; group < groups_.size(); ++group) {
        if (usable_[group]) wanted[i].row->put(std::max(group_begin(groups_[group]), stretch.first), shown_[group]);
      }
    }
  }
  return without;
}

void HeatReader::read_records(const StretchRow& stretch, const Interval& inside, const std::vector<Interval>& merged,
                              const Wanted& wanted, bool taken) {
  const bool whole = inside.first == stretch.first && inside.last == stretch.last && !touches(inside, merged);
  if (!taken && whole && wanted.row->in_one_column(inside)) return read_summary(stretch, wanted, inside);
  const FrameView* frame = stored_.frame(stretch, wanted.id, wanted.numel);
  if (frame == nullptr) {
    // Thinned to summaries: all that is left is the whole of it, told once.
    if (!taken) read_summary(stretch, wanted, inside);
    return;
  }
  frame->read(need_of(by_), records_);
  std::size_t group = 0;
  for (std::size_t i = 0; i < records_.rows.size(); ++i) {
    const std::uint64_t attempt = attempts_[records_.places[i]];
    while (groups_[group] != group_of(attempt)) ++group;
    if (attempt < inside.first || attempt > inside.last || (taken && usable_[group])) continue;
    if (!touches({attempt, attempt}, merged)) wanted.row->merge(attempt, records_.rows[i]);
  }
}

void HeatReader::read_summary(const StretchRow& stretch, const Wanted& wanted, const Interval& inside) {
  Query row(reading_.connection(), "SELECT reports, tensors FROM summaries WHERE id = ?",
            summary_key(stretch.stream, wanted.id / kChunkTensors, stretch.number));
  SummariesView view;
  if (!row.step()) return;
  open_summaries(row.view(1), static_cast<std::size_t>(row.i64(0)), view);
  const TensorSummary summary = view.at(wanted.id % kChunkTensors, wanted.numel);
  if (summary.records == 0 || summary.first >= stretch.reports || summary.last >= stretch.reports) return;
  const Interval attempts{attempts_[summary.first], attempts_[summary.last]};
  if (attempts.first >= inside.first) wanted.row->put(attempts, summary);
}

}  // namespace scalewatch::history

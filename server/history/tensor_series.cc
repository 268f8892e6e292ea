#include "server/history/tensor_series.h"

#include <algorithm>
#include <limits>
#include <map>

#include "server/history/attempt_records.h"
#include "server/history/keys.h"
#include "server/history/older_reading.h"

namespace scalewatch::history {

namespace {

struct Holder {
  std::int64_t stream = 0;
  std::uint32_t rank = 0;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> ids;  // with their numel
};

// The streams with this tensor in their table, and the others of the same ranks, without ids.
std::vector<Holder> holders(const Catalog& catalog, std::uint32_t tensor, std::optional<std::uint32_t> rank) {
  std::map<const void*, std::vector<std::pair<std::uint32_t, std::uint64_t>>> ids;
  std::map<std::uint32_t, bool> ranks;
  std::vector<Holder> all;
  for (const auto& [stream, known] : catalog.streams) {
    if (rank && known.rank != *rank) continue;
    const auto [found, is_new] = ids.try_emplace(known.slots.get());
    if (is_new) {
      for (std::uint32_t id = 0; id < known.slots->size(); ++id) {
        if ((*known.slots)[id].tensor == tensor) found->second.emplace_back(id, (*known.slots)[id].numel);
      }
    }
    all.push_back({stream, known.rank, found->second});
    ranks[known.rank] = ranks[known.rank] || !found->second.empty();
  }
  std::erase_if(all, [&](const Holder& holder) { return !ranks[holder.rank]; });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.stream < b.stream; });
  return all;
}

}  // namespace

void TensorSeries::load_pieces(const ReportRange& range, std::int64_t stream, std::uint32_t rank, std::uint32_t id,
                               std::uint64_t numel) {
  const std::int64_t block = id / kChunkTensors;
  std::int64_t first = -1;
  std::int64_t last = -1;
  {
    Query numbers(
        reading_.connection(),
        "SELECT min(number), max(number) FROM stretches WHERE stream = ? AND first_attempt <= ? AND last_attempt >= ?", stream,
        range.last, range.first);
    if (!numbers.step() || numbers.is_null(0)) return;
    first = numbers.i64(0);
    last = numbers.i64(1);
  }
  SummariesView view;
  for (bool more = true; more;) {
    more = false;
    Query rows(reading_.connection(),
               "SELECT id, first_attempt, last_attempt, reports, tensors FROM summaries WHERE id BETWEEN ? AND ?",
               summary_key(stream, block, first), summary_key(stream, block, last));
    while (!more && rows.step()) {
      first = (rows.i64(0) & kMaxStretch) + 1;
      more = reading_.page_over();
      Piece piece{stream, first - 1, rank, id, numel, static_cast<std::size_t>(rows.i64(3)), {rows.u64(1), rows.u64(2)}, {}};
      if (piece.attempts.last < range.first || piece.attempts.first > range.last) continue;
      open_summaries(rows.view(4), piece.reports, view);
      piece.summary = view.at(id % kChunkTensors, numel);
      if (piece.summary.records > 0) pieces_.push_back(piece);
    }
  }
}

void TensorSeries::note_loose(const ReportRange& range, std::int64_t stream) {
  const std::uint64_t after = stretched_seq(reading_.connection(), stream);
  Query loose(reading_.connection(),
              "SELECT min(attempt), max(attempt) FROM reports INDEXED BY reports_by_seq WHERE stream = ? AND seq > ? AND NOT "
              "retrospective AND attempt BETWEEN ? AND ?",
              stream, after, range.first, range.last);
  if (loose.step() && !loose.is_null(0)) merged_.push_back({loose.u64(0), loose.u64(1)});
}

// Pieces of several streams over the same attempts, and those of a rank that another of its incarnations went over again.
void TensorSeries::note_overlaps(const ReportRange& range) {
  std::map<std::uint32_t, std::vector<std::int64_t>> by_rank;
  for (const auto& piece : pieces_) by_rank[piece.rank];
  for (const auto& [stream, known] : catalog_.streams) {
    if (const auto found = by_rank.find(known.rank); found != by_rank.end()) found->second.push_back(stream);
  }
  std::vector<StreamInterval> edges;
  for (const auto& piece : pieces_) edges.push_back({piece.attempts, piece.stream});
  for (const auto& [rank, streams] : by_rank) {
    if (streams.size() < 2) continue;
    for (const std::int64_t stream : streams) {
      Query rows(reading_.connection(),
                 "SELECT first_attempt, last_attempt FROM stretches INDEXED BY stretches_by_stream WHERE stream = ? AND "
                 "first_attempt <= ? AND last_attempt >= ?",
                 stream, range.last, range.first);
      while (rows.step()) edges.push_back({{rows.u64(0), rows.u64(1)}, stream});
    }
  }
  const auto found = overlaps(std::move(edges));
  merged_.insert(merged_.end(), found.begin(), found.end());
}

void TensorSeries::load(const ReportRange& range) {
  pieces_.clear();
  merged_.clear();
  for (const auto& holder : holders(catalog_, tensor_, range.rank)) {
    for (const auto& [id, numel] : holder.ids) load_pieces(range, holder.stream, holder.rank, id, numel);
    note_loose(range, holder.stream);
    // A table that names a tensor twice is merged record by record.
    if (holder.ids.size() > 1) merged_.push_back({range.first, range.last});
  }
  {
    Query details(reading_.connection(),
                  "SELECT attempt FROM reports INDEXED BY reports_retrospective WHERE run = ? AND segment = ? AND "
                  "retrospective = 1 AND attempt BETWEEN ? AND ?",
                  range.run, range.segment, range.first, range.last);
    while (details.step()) merged_.push_back({details.u64(0), details.u64(0)});
  }
  note_overlaps(range);
  merged_ = joined(std::move(merged_));
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.attempts.first < b.attempts.first; });
}

// Pieces without what is merged, and the latter, in order; no two overlap.
std::vector<TensorSeries::Part> TensorSeries::parts(const ReportRange& range) {
  std::vector<Part> parts;
  for (const auto& interval : merged_) {
    parts.push_back({{std::max(interval.first, range.first), std::min(interval.last, range.last)}, nullptr});
  }
  std::erase_if(parts, [](const Part& part) { return part.attempts.first > part.attempts.last; });
  for (const auto& piece : pieces_) {
    const Interval inside{std::max(piece.attempts.first, range.first), std::min(piece.attempts.last, range.last)};
    for (const auto& left : without(inside, merged_)) parts.push_back({left, &piece});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.attempts.first < b.attempts.first; });
  return parts;
}

void TensorSeries::read_piece(const Part& part, Sink& sink) {
  const Piece& piece = *part.piece;
  StretchRow stretch{piece.stream, piece.number, piece.reports, piece.attempts.first, piece.attempts.last, {}};
  if (piece.attempts.last - piece.attempts.first + 1 != piece.reports) {
    auto row = stretch_numbered(reading_.connection(), piece.stream, piece.number);
    if (!row) return;
    stretch = std::move(*row);
  }
  const std::uint64_t first = stretch.attempt(piece.summary.first);
  const std::uint64_t last = stretch.attempt(piece.summary.last);
  if (first >= part.attempts.first && last <= part.attempts.last && sink.takes_summary(first, last)) {
    sink.summary(first, last, piece.summary);
    return;
  }
  const FrameView* frame = stored_.frame(stretch, piece.id, piece.numel);
  if (frame == nullptr) {
    // Thinned to summaries: all that is left is the whole of it, told once.
    if (piece.summary.first < stretch.reports && first >= part.attempts.first) sink.summary(first, last, piece.summary);
    return;
  }
  frame->read(rows_);
  for (std::size_t i = 0; i < rows_.rows.size(); ++i) {
    const std::uint64_t attempt = stretch.attempt(rows_.places[i]);
    if (attempt >= part.attempts.first && attempt <= part.attempts.last) sink.record(attempt, rows_.rows[i]);
  }
}

void TensorSeries::read_pieces(const ReportRange& range, Sink& sink) {
  pieces_.clear();
  for (const auto& holder : holders(catalog_, tensor_, range.rank)) {
    for (const auto& [id, numel] : holder.ids) load_pieces(range, holder.stream, holder.rank, id, numel);
  }
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.attempts.first > b.attempts.first; });
  for (const auto& piece : pieces_) {
    if (!sink.wants(piece.summary)) continue;
    read_piece({{std::max(piece.attempts.first, range.first), std::min(piece.attempts.last, range.last)}, &piece}, sink);
  }
}

std::optional<std::uint64_t> TensorSeries::read(const ReportRange& range, std::chrono::steady_clock::time_point deadline,
                                                Sink& sink) {
  if (OlderReading* const older = reading_.older(range.run, range.segment)) {
    if (const auto part = older->part(range)) {
      if (const auto rest = read_older(*older, *part, deadline, sink)) return rest;
      if (part->last == range.last) return std::nullopt;
      ReportRange local = range;
      local.first = part->last + 1;
      if (std::chrono::steady_clock::now() >= deadline) return local.first;
      return read_local(local, deadline, sink);
    }
  }
  return read_local(range, deadline, sink);
}

// A rank that started again may have gone over attempts a second time, without records of this tensor: only its reports tell.
bool TensorSeries::needs_reports() const {
  std::map<std::uint32_t, int> streams;
  for (const auto& [stream, known] : catalog_.streams) {
    if (++streams[known.rank] > 1) return true;
  }
  return false;
}

std::optional<std::uint64_t> TensorSeries::read_older(OlderReading& older, const ReportRange& part,
                                                      std::chrono::steady_clock::time_point deadline, Sink& sink) {
  const v1::TensorInfo& info = catalog_.tensors[tensor_].info;
  if (needs_reports()) {
    older.only({{info.name(), info.role()}});
    return read_attempts(part, deadline, sink);
  }
  reading_.pause();
  if (const auto grid = sink.grid(); grid && grid->width > 1) return read_sums(older, part, *grid, deadline, sink);
  return read_older_records(
      older, part, {}, deadline, [](std::uint64_t) {}, sink);
}

std::optional<std::uint64_t> TensorSeries::read_sums(OlderReading& older, const ReportRange& part, const AttemptGrid& grid,
                                                     std::chrono::steady_clock::time_point deadline, Sink& sink) {
  constexpr std::uint64_t kAtOnce = 1'000'000;  // attempts
  const v1::TensorInfo& info = catalog_.tensors[tensor_].info;
  ReportRange page = part;
  for (; page.first <= part.last; page.first = page.last + 1) {
    if (page.first != part.first && std::chrono::steady_clock::now() >= deadline) return page.first;
    // To the end of a cell.
    const std::uint64_t cells = (page.first - grid.first + kAtOnce) / grid.width + 1;
    page.last = std::min(part.last, grid.first + cells * grid.width - 1);
    OlderSums found = older.tensor_sums(page, info.name(), info.role(), grid);
    for (const OlderSum& one : found.sums) {
      if (slot_of(older, one.key, one.id) != nullptr) continue;
      const std::uint64_t cell = grid.first + (one.attempts.first - grid.first) / grid.width * grid.width;
      found.untold.push_back({std::max(page.first, cell), std::min(page.last, cell + grid.width - 1)});
    }
    found.untold = joined(std::move(found.untold));
    auto next = found.sums.begin();
    const auto told_before = [&](std::uint64_t attempt) {
      for (; next != found.sums.end() && next->attempts.first < attempt; ++next) {
        if (touches(next->attempts, found.untold)) continue;
        sink.summary(next->attempts.first, next->attempts.last, next->sum);
      }
    };
    if (!found.untold.empty()) {
      const auto rest = read_older_records(older, page, found.untold, deadline, told_before, sink);
      if (rest) return rest;
    }
    told_before(page.last + 1);
  }
  return std::nullopt;
}

const Catalog::Slot* TensorSeries::slot_of(const OlderReading& older, const OlderKey& key, std::uint32_t id) const {
  const auto stream = older.stream_of(key);
  const auto known = stream ? catalog_.streams.find(*stream) : catalog_.streams.end();
  if (known == catalog_.streams.end() || id >= known->second.slots->size()) return nullptr;
  const auto& slot = (*known->second.slots)[id];
  return slot.tensor == tensor_ ? &slot : nullptr;
}

std::optional<std::uint64_t> TensorSeries::read_older_records(OlderReading& older, const ReportRange& part,
                                                              const std::vector<Interval>& within,
                                                              std::chrono::steady_clock::time_point deadline,
                                                              const std::function<void(std::uint64_t attempt)>& before,
                                                              Sink& sink) {
  const v1::TensorInfo& info = catalog_.tensors[tensor_].info;
  for (std::uint64_t first = part.first; first <= part.last;) {
    if (first != part.first && std::chrono::steady_clock::now() >= deadline) {
      before(first);
      return first;
    }
    const auto rows = older.tensor_page(part, first, info.name(), info.role(), within);
    if (rows.empty()) break;
    RankMerge merge;
    std::vector<std::uint32_t> done;  // ids of the rank
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const OlderRecord& row = rows[i];
      const bool new_rank = i == 0 || rows[i - 1].attempt != row.attempt || rows[i - 1].key.rank != row.key.rank;
      if (new_rank) done.clear();
      const auto* const slot = slot_of(older, row.key, row.id);
      if (slot != nullptr && std::find(done.begin(), done.end(), row.id) == done.end()) {
        merge.add(row.key.rank, slot->shard, row.measured);
        done.push_back(row.id);
      }
      if (i + 1 < rows.size() && rows[i + 1].attempt == row.attempt) continue;
      if (!merge.empty()) {
        before(row.attempt);
        sink.record(row.attempt, merge.total());
      }
      merge.clear();
    }
    first = rows.back().attempt + 1;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> TensorSeries::read_attempts(const ReportRange& range,
                                                         std::chrono::steady_clock::time_point deadline, Sink& sink) {
  TensorRecords records(catalog_, stored_, tensor_);
  ReportReader reader(reading_, catalog_, deadline);
  std::uint64_t attempt = 0;
  const auto close = [&] {
    if (!records.merged().empty()) sink.record(attempt, records.merged().total());
    records.clear();
  };
  const auto rest = reader.read(range, [&](const RankReports& reports) {
    if (reports.front().attempt != attempt) close();
    attempt = reports.front().attempt;
    records.add(reports);
  });
  close();
  return rest;
}

std::optional<std::uint64_t> TensorSeries::read_local(const ReportRange& range, std::chrono::steady_clock::time_point deadline,
                                                      Sink& sink) {
  load(range);
  TensorRecords records(catalog_, stored_, tensor_);
  ReportReader reader(reading_, catalog_, deadline);
  bool any = false;
  for (const Part& part : parts(range)) {
    if (any && std::chrono::steady_clock::now() >= deadline) return part.attempts.first;
    any = true;
    if (part.piece != nullptr) {
      read_piece(part, sink);
      continue;
    }
    ReportRange within = range;
    within.first = part.attempts.first;
    within.last = part.attempts.last;
    if (const auto rest = read_attempts(within, deadline, sink)) return rest;
  }
  return std::nullopt;
}

}  // namespace scalewatch::history

#include "server/history/older_scores.h"

#include <algorithm>

#include "server/history/score_groups.h"

namespace scalewatch::history {

OlderScores::OlderScores(OlderReading& older, const Catalog& catalog, ReportReader& reader, StoredRecords& stored, By::By by)
    : older_(older), catalog_(catalog), reader_(reader), merged_(catalog, stored), by_(by) {
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    const auto& info = catalog.tensors[i].info;
    positions_.emplace(older.history().key_of(info.name(), info.role()), i);
  }
}

OlderScores::Split OlderScores::split(const std::vector<Interval>& attempts) const {
  Split out;
  for (const Interval& piece : attempts) {
    if (adds(by_)) {
      out.whole.push_back(piece);
      continue;
    }
    std::uint64_t first = group_of(piece.first);
    if (group_begin(first) < piece.first) ++first;
    const std::uint64_t end = group_of(piece.last) + (group_end(group_of(piece.last)) > piece.last ? 0 : 1);  // exclusive
    if (first >= end) {
      out.edges.push_back(piece);
      continue;
    }
    const Interval whole{group_begin(first), group_end(end - 1)};
    out.whole.push_back(whole);
    for (const Interval& edge : without(piece, {whole})) out.edges.push_back(edge);
  }
  return out;
}

OlderHistory::Tensors OlderScores::named(std::span<const std::uint32_t> tensors) const {
  OlderHistory::Tensors names;
  for (const auto tensor : tensors)
    names.emplace_back(catalog_.tensors[tensor].info.name(), catalog_.tensors[tensor].info.role());
  return names;
}

std::vector<OlderScores::Cell> OlderScores::read(const std::vector<Interval>& attempts, std::span<const std::uint32_t> tensors,
                                                 std::uint64_t first, std::uint64_t width) {
  std::vector<Cell> cells;
  if (attempts.empty()) return cells;
  OlderRange range = older_.range(attempts.front().first, attempts.back().last);
  range.within = attempts;
  for (const auto& score : older_.history().scores(range, by_, named(tensors), first, width)) {
    const auto found = positions_.find(score.tensor);
    if (found != positions_.end()) cells.push_back({found->second, score.cell, score.score});
  }
  return cells;
}

bool OlderScores::read_records(const ReportRange& range, std::vector<Interval> attempts, std::span<const std::uint32_t> tensors,
                               const TakeRecord& take) {
  attempts = joined(std::move(attempts));
  const ReportRange part{range.run, range.segment, attempts.front().first, attempts.back().last, {}};
  older_.only(named(tensors), std::move(attempts), true);
  std::uint64_t attempt = 0;
  const auto close = [&] {
    for (const auto tensor : merged_.present()) take(tensor, attempt, merged_.of(tensor).total());
    merged_.clear();
  };
  const auto rest = reader_.read(part, [&](const RankReports& reports) {
    if (reports.front().attempt != attempt) close();
    attempt = reports.front().attempt;
    merged_.add(reports);
  });
  close();
  older_.only({});
  return !rest;
}

bool OlderScores::lead(const ReportRange& range, const std::vector<Interval>& attempts, const Lead& lead) {
  if (adds(by_)) {
    for (const auto& cell : read(attempts, {}, 0, 0)) {
      if (lead.takes(cell.tensor)) lead.score(cell.tensor, cell.score);
    }
    return true;
  }
  const Split parts = split(attempts);
  constexpr double kNone = ScoreBound::kNone;
  std::vector<double> known(catalog_.tensors.size(), kNone);  // of whole groups, and of edges that were read
  std::vector<double> edges(catalog_.tensors.size(), kNone);  // at least what unread edges have
  for (const auto& cell : read(parts.whole, {}, 0, 0)) known[cell.tensor] = std::max(known[cell.tensor], cell.score);
  std::vector<Interval> around;  // groups that edges are of
  for (const auto& edge : parts.edges) around.push_back({group_begin(group_of(edge.first)), group_end(group_of(edge.last))});
  for (const auto& cell : read(joined(std::move(around)), {}, 0, 0)) {
    edges[cell.tensor] = std::max(edges[cell.tensor], cell.score);
  }
  const auto most = [&](std::uint32_t tensor) { return std::max(known[tensor], edges[tensor]); };
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < catalog_.tensors.size(); ++i) {
    if (most(i) > kNone && lead.takes(i)) order.push_back(i);
  }
  const auto take = [&](std::uint32_t tensor, std::uint64_t attempt, const Measured& measured) {
    if (lead.records) lead.record(tensor, attempt, measured);
    if (const auto value = score(by_, measured)) known[tensor] = std::max(known[tensor], *value);
  };
  // Edges are read of those alone that they may bring among the first, until no more are.
  std::vector<std::uint32_t> first;
  while (true) {
    const std::size_t count = std::min(lead.limit, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](auto a, auto b) { return most(a) != most(b) ? most(a) > most(b) : a < b; });
    first.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<std::uint32_t> open;
    std::copy_if(first.begin(), first.end(), std::back_inserter(open), [&](auto tensor) {
      return edges[tensor] > known[tensor] || (lead.records && edges[tensor] > kNone && edges[tensor] == known[tensor]);
    });
    if (open.empty()) break;
    for (const auto tensor : open) edges[tensor] = kNone;
    if (!read_records(range, parts.edges, open, take)) return false;
    std::erase_if(order, [&](auto tensor) { return most(tensor) == kNone; });
  }
  const bool whole = !lead.records || read_best(range, attempts, first, lead.record);
  for (const auto tensor : first) lead.score(tensor, known[tensor]);
  return whole;
}

bool OlderScores::read_best(const ReportRange& range, const std::vector<Interval>& attempts,
                            std::span<const std::uint32_t> tensors, const TakeRecord& take) {
  const auto whole = split(attempts).whole;
  if (tensors.empty() || whole.empty()) return true;
  // Of equal ones the newest leads.
  std::unordered_map<std::uint32_t, Cell> best;
  const std::uint64_t width = adds(by_) ? 1 : kGroupAttempts;
  for (const auto& cell : read(whole, tensors, 0, width)) {
    const auto [found, is_new] = best.try_emplace(cell.tensor, cell);
    Cell& now = found->second;
    if (!is_new && (cell.score > now.score || (cell.score == now.score && cell.cell > now.cell))) now = cell;
  }
  std::vector<Interval> cells;
  for (const auto& [tensor, cell] : best) {
    const std::uint64_t begin = cell.cell * width + (adds(by_) || cell.cell == 0 ? 0 : 1);
    cells.push_back({std::max(begin, whole.front().first), cell.cell * width + (adds(by_) ? 0 : kGroupAttempts)});
  }
  return cells.empty() || read_records(range, std::move(cells), tensors, take);
}

}  // namespace scalewatch::history

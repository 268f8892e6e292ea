#include "server/history/older_scores.h"

#include <algorithm>

namespace scalewatch::history {

namespace {

constexpr std::size_t kMostPlaces = 256;  // that a question names

}  // namespace

OlderScores::OlderScores(OlderReading& older, const Catalog& catalog, ReportReader& reader, StoredRecords& stored, By::By by,
                         std::vector<Interval> wide)
    : older_(older), catalog_(catalog), reader_(reader), merged_(catalog, stored), by_(by), wide_(std::move(wide)) {
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    const auto& info = catalog.tensors[i].info;
    positions_.emplace(older.history().key_of(info.name(), info.role()), i);
  }
}

GroupSplit OlderScores::split(const std::vector<Interval>& attempts) const {
  return adds(by_) ? GroupSplit{attempts, {}} : split_groups(attempts);
}

OlderHistory::Tensors OlderScores::named(std::span<const std::uint32_t> tensors) const {
  OlderHistory::Tensors names;
  for (const auto tensor : tensors)
    names.emplace_back(catalog_.tensors[tensor].info.name(), catalog_.tensors[tensor].info.role());
  return names;
}

std::vector<OlderScores::Cell> OlderScores::read(const std::vector<Interval>& attempts, std::span<const std::uint32_t> tensors,
                                                 std::uint64_t first, std::uint64_t width, const std::vector<Interval>& each) {
  std::vector<Cell> cells;
  if (attempts.empty()) return cells;
  OlderRange range = older_.range(attempts.front().first, attempts.back().last);
  range.within = attempts;
  range.wide = wide_;
  range.each = each;
  for (const auto& score : older_.history().scores(range, by_, named(tensors), first, width)) {
    const auto found = positions_.find(score.tensor);
    if (found != positions_.end()) cells.push_back({found->second, score.cell, score.score});
  }
  return cells;
}

bool OlderScores::read_records(const ReportRange& range, const Places& places, const TakeRecord& take) {
  const ReportRange part{range.run, range.segment, places.attempts.front().first, places.attempts.back().last, {}};
  older_.only(named(places.tensors), places.attempts, true, places.each);
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
  const GroupSplit parts = split(attempts);
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
    Places at_edges{open, {}, joined(parts.edges)};
    if (open.size() * parts.edges.size() <= kMostPlaces) {
      at_edges.tensors.clear();
      for (const auto tensor : open) {
        at_edges.tensors.insert(at_edges.tensors.end(), parts.edges.size(), tensor);
        at_edges.each.insert(at_edges.each.end(), parts.edges.begin(), parts.edges.end());
      }
    }
    if (!read_records(range, at_edges, take)) return false;
    std::erase_if(order, [&](auto tensor) { return most(tensor) == kNone; });
  }
  const bool whole = !lead.records || read_best(range, attempts, first, lead.record);
  for (const auto tensor : first) lead.score(tensor, known[tensor]);
  return whole;
}

OlderScores::Places OlderScores::places_of(std::vector<std::uint32_t> tensors, std::vector<Interval> each) {
  Places places{std::move(tensors), {}, joined(each)};
  if (each.size() <= kMostPlaces) places.each = std::move(each);
  return places;
}

OlderScores::Places OlderScores::best_places(const Places& in, std::uint64_t width) {
  std::unordered_map<std::uint32_t, Cell> best;
  for (const auto& cell : read(in.attempts, in.tensors, 0, width, in.each)) {
    const auto [found, is_new] = best.try_emplace(cell.tensor, cell);
    Cell& now = found->second;
    if (!is_new && (cell.score > now.score || (cell.score == now.score && cell.cell > now.cell))) now = cell;
  }
  std::vector<std::uint32_t> tensors;
  std::vector<Interval> each;
  for (const auto& [tensor, cell] : best) {
    const std::uint64_t begin = cell.cell * width;
    Interval attempts{begin, begin};
    // Of groups the first attempt decides.
    if (width > 1) attempts = {cell.cell == 0 ? 0 : begin + 1, begin + width};
    for (const Interval& part : common(in.attempts, {attempts})) {
      tensors.push_back(tensor);
      each.push_back(part);
    }
  }
  return places_of(std::move(tensors), std::move(each));
}

bool OlderScores::read_best(const ReportRange& range, const std::vector<Interval>& attempts,
                            std::span<const std::uint32_t> tensors, const TakeRecord& take) {
  Places places{{tensors.begin(), tensors.end()}, {}, split(attempts).whole};
  // First among hundreds, then among the tens of these alone.
  std::vector<std::uint64_t> widths{kGroupAttempts};
  if (adds(by_)) widths = {1};
  if (!adds(by_) && !wide_.empty()) widths = {kWideAttempts, kGroupAttempts};
  for (const std::uint64_t width : widths) {
    if (places.tensors.empty() || places.attempts.empty()) return true;
    places = best_places(places, width);
  }
  return places.attempts.empty() || read_records(range, places, take);
}

}  // namespace scalewatch::history

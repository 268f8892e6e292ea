#include "tests/unit/domain/folded_run.h"

#include <algorithm>
#include <cstring>

#include "server/domain/fields.h"
#include "server/domain/rules/rule.h"

namespace scalewatch::domain {
namespace {

// Windows short enough for a run of some hundred attempts to fill and empty them.
Thresholds lively() {
  Thresholds t;
  t.event_resolve = 15;
  t.stats_dropped_resolve = 40;
  t.loss_unchanged_applied = 40;
  t.all_zero_gradient_samples = 8;
  t.dominant_gradient_samples = 4;
  t.underflow_samples = 6;
  t.mask_samples = 6;
  t.stalled_after_ms = 20'000;
  t.stalled_longest = 0.5;
  return t;
}

}  // namespace

void RecordStore::add(std::uint32_t id, const Record& record, std::optional<std::uint32_t> first_bad_micro) {
  const std::uint32_t index = columns.count++;
  ids.push_back(id);
  min.push_back(record.min);
  max.push_back(record.max);
  absmin.push_back(record.absmin_nonzero);
  sum.push_back(record.sum);
  sum_sq.push_back(record.sum_sq);
  numel.push_back(record.numel);
  zero.push_back(record.zero);
  subnormal.push_back(record.subnormal);
  flushed.push_back(record.flushed);
  const auto sparse = [index](std::vector<SparseCount>& list, std::uint64_t count) {
    if (count > 0) list.push_back({index, count});
  };
  sparse(columns.nan, record.nan);
  sparse(columns.pos_inf, record.pos_inf);
  sparse(columns.neg_inf, record.neg_inf);
  sparse(columns.over, record.over);
  if (first_bad_micro) columns.first_bad_micro.push_back({index, *first_bad_micro});
}

RecordColumns RecordStore::view() const {
  RecordColumns all = columns;
  all.ids = ids;
  all.min = min;
  all.max = max;
  all.absmin_nonzero = absmin;
  all.sum = sum;
  all.sum_sq = sum_sq;
  all.numel = numel;
  all.zero = zero;
  all.subnormal = subnormal;
  all.flushed = flushed;
  return all;
}

FoldedRun::FoldedRun() : run_(lively()) {}

std::vector<FindingEvent> FoldedRun::take(const RunInput& input) {
  if (const auto* report = std::get_if<RankReportInput>(&input)) {
    std::vector<RecordColumns> blocks;
    for (const RecordStore& block : report->blocks) blocks.push_back(block.view());
    AttemptDigest digest = report->head;
    ranks_[digest.rank].fold(blocks, digest);
    return run_.fold(digest);
  }
  Input plain = std::get<Input>(input);
  if (auto* acknowledged = std::get_if<Acknowledged>(&plain); acknowledged != nullptr && acknowledged->finding_id.empty()) {
    const RunView view = run_.view();
    if (!view.open.empty()) acknowledged->finding_id = view.open.front().id;
  }
  if (const auto* joined = std::get_if<RankJoined>(&plain)) {
    ranks_[joined->rank] = RankState();
    ranks_[joined->rank].configure(*joined, lively());
    joined_[joined->rank] = *joined;
  }
  if (std::holds_alternative<SegmentOpened>(plain)) ranks_.clear();
  return run_.fold(plain);
}

void FoldedRun::reload() {
  RunState run(lively());
  run.load(run_.save());
  run_ = std::move(run);
  for (auto& [number, rank] : ranks_) {
    RankState loaded;
    loaded.configure(joined_.at(number), lively());
    loaded.load(rank.save());
    rank = std::move(loaded);
  }
}

std::string FoldedRun::rank_bytes() const {
  std::string bytes;
  for (const auto& [number, rank] : ranks_) bytes += rank.save();
  return bytes;
}

std::string bytes_of(std::vector<FindingEvent> events) {
  Writer writer(0, 0);
  for (FindingEvent& event : events) writer(event.change, event.finding);
  return std::move(writer).finish();
}

std::string difference_of_states(std::string_view a, std::string_view b) {
  // A state ends with the sections of the rules, in their order, each under its name.
  const auto section = [](std::string_view state, std::size_t end, std::string_view name) {
    const std::uint64_t size = name.size();
    const std::string mark = std::string(reinterpret_cast<const char*>(&size), sizeof size) + std::string(name);
    return state.substr(0, end).rfind(mark);
  };
  const auto rules = make_rules();
  std::string found = "the model, the open findings or the pending attempts";
  std::size_t a_end = a.size() - 8;  // the checksum
  std::size_t b_end = b.size() - 8;
  std::string names;
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) {
    const std::size_t a_at = section(a, a_end, (*rule)->name());
    const std::size_t b_at = section(b, b_end, (*rule)->name());
    if (a_at == std::string_view::npos || b_at == std::string_view::npos) break;
    if (a.substr(a_at, a_end - a_at) != b.substr(b_at, b_end - b_at)) names += " " + std::string((*rule)->name());
    a_end = a_at;
    b_end = b_at;
  }
  if (a.substr(0, a_end) == b.substr(0, b_end)) found.clear();
  return "state of" + names + (found.empty() ? "" : " " + found);
}

std::string difference_of_events(const std::vector<FindingEvent>& a, const std::vector<FindingEvent>& b) {
  const auto text = [](const FindingEvent& event) {
    return event.finding.id + " (change " + std::to_string(static_cast<int>(event.change)) + ", severity " +
           std::to_string(static_cast<int>(event.finding.severity)) + ": " + event.finding.summary + ")";
  };
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size()) return "only the second has " + text(b[i]);
    if (i >= b.size()) return "only the first has " + text(a[i]);
    if (bytes_of({a[i]}) != bytes_of({b[i]})) return text(a[i]) + " against " + text(b[i]);
  }
  return {};
}

}  // namespace scalewatch::domain

// The tensors that lead by one statistic: read where they are, of the store and of what is older.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "server/history/api_impl.h"
#include "server/history/attempt_records.h"
#include "server/history/keys.h"
#include "server/history/leaders.h"
#include "server/history/older_reading.h"
#include "server/history/older_scores.h"
#include "server/history/scores.h"
#include "server/history/segment_cover.h"
#include "server/history/tensor_series.h"

namespace scalewatch::history {

namespace {

// A tensor's records within stretches, where they may beat what leads.
class Verify final : public TensorSeries::Sink {
 public:
  Verify(By::By by, std::uint32_t tensor, const std::vector<Interval>& merged, Leaders& leaders)
      : by_(by), tensor_(tensor), merged_(merged), leaders_(leaders) {}

  bool wants(const TensorSummary& summary) override {
    const auto bound = score_bound(by_, summary);
    const auto& best = leaders_[tensor_].best;
    return bound && (adds(by_) || !best || *bound >= *best);
  }
  bool takes_summary(std::uint64_t, std::uint64_t) override { return false; }
  void summary(std::uint64_t first, std::uint64_t, const TensorSummary& summary) override {
    // Thinned: the whole stands for its records.
    record(first, summary.total);
  }
  void record(std::uint64_t attempt, const Measured& measured) override {
    const auto cut = std::lower_bound(merged_.begin(), merged_.end(), attempt,
                                      [](const Interval& interval, std::uint64_t at) { return interval.last < at; });
    if (cut == merged_.end() || cut->first > attempt) leaders_.take(tensor_, attempt, measured);
  }

 private:
  const By::By by_;
  const std::uint32_t tensor_;
  const std::vector<Interval>& merged_;
  Leaders& leaders_;
};

// Bounds of all tensors from the summaries of stretches that overlap the range.
void take_summaries(Reading& reading, const Catalog& catalog, By::By by, v1::Role role, const ReportRange& range,
                    const SegmentCover& cover, Leaders& leaders) {
  struct Use {
    std::int64_t number = 0;
    bool cut = false;  // not all of its records count
  };
  std::map<std::int64_t, std::vector<Use>> by_stream;
  for (const auto& stretch : cover.stretches) {
    const bool cut =
        stretch.attempts.first < range.first || stretch.attempts.last > range.last || touches(stretch.attempts, cover.merged);
    if (cut && without(stretch.attempts, cover.merged).empty()) continue;
    by_stream[stretch.stream].push_back({stretch.number, cut});
  }
  SummariesView view;
  std::array<ScoreBound, kChunkTensors> bounds;
  for (auto& [stream, uses] : by_stream) {
    const auto& slots = *catalog.streams.at(stream).slots;
    const auto before = [](const Use& a, const Use& b) { return a.number < b.number; };
    std::sort(uses.begin(), uses.end(), before);
    for (std::uint32_t begin = 0; begin < slots.size(); begin += kChunkTensors) {
      const std::int64_t block = begin / kChunkTensors;
      bounds.fill({});
      Query rows(reading.connection(), "SELECT id, reports, tensors FROM summaries WHERE id BETWEEN ? AND ?",
                 summary_key(stream, block, uses.front().number), summary_key(stream, block, uses.back().number));
      while (rows.step()) {
        const Use key{rows.i64(0) & kMaxStretch};
        const auto use = std::lower_bound(uses.begin(), uses.end(), key, before);
        if (use == uses.end() || use->number != key.number) continue;
        open_summaries(rows.view(2), static_cast<std::size_t>(rows.i64(1)), view);
        view.bound(need_of(by), use->cut, bounds);
      }
      for (std::uint32_t i = 0; i < kChunkTensors && begin + i < slots.size(); ++i) {
        const auto tensor = slots[begin + i].tensor;
        if (tensor == Catalog::kNone) continue;
        if (role != v1::ROLE_UNSPECIFIED && catalog.tensors[tensor].info.role() != role) continue;
        leaders.take_bound(tensor, bounds[i]);
      }
    }
  }
}

// One answer's way: what several streams have is read first, newest first, so that what a time limit leaves out is the oldest.
class LeadingRead {
 public:
  LeadingRead(Reading& reading, const Catalog& catalog, const SegmentCover& covered, By::By by, v1::Role role,
              const ReportRange& range, std::chrono::steady_clock::time_point deadline)
      : reading_(reading),
        catalog_(catalog),
        covered_(covered),
        by_(by),
        role_(role),
        range_(range),
        leaders_(by, catalog.tensors.size()),
        stored_(reading),
        records_(catalog, stored_),
        reader_(reading, catalog, deadline),
        reached_(range.first) {
    const OlderReading* const older = reading.older(range.run, range.segment);
    floor_ = older == nullptr ? 0 : older->floor();
  }

  // Attempt by attempt, what several streams have here.
  void merged_here();
  // The same of what only the shared history has, or does not tell together.
  void merged_older();
  // What the shared history tells together.
  void scores(std::size_t limit, bool records);
  // Bounds from the summaries of stretches.
  void summaries();
  // The best first. `records`: with the one that leads each.
  std::vector<std::uint32_t> rank(std::size_t limit, bool records);

  Leaders& leaders() { return leaders_; }
  [[nodiscard]] std::uint64_t reached() const { return reached_; }

 private:
  [[nodiscard]] bool takes(std::uint32_t tensor) const {
    return role_ == v1::ROLE_UNSPECIFIED || catalog_.tensors[tensor].info.role() == role_;
  }
  void take_attempt(std::uint64_t attempt) {
    for (const auto tensor : records_.present()) {
      if (takes(tensor)) leaders_.take(tensor, attempt, records_.of(tensor).total());
    }
    records_.clear();
  }
  void stop_if_late(std::uint64_t reached) {
    if (!reader_.late()) return;
    reached_ = reached;
    whole_ = reached_ == range_.first;
  }

  Reading& reading_;
  const Catalog& catalog_;
  const SegmentCover& covered_;
  const By::By by_;
  const v1::Role role_;
  const ReportRange range_;
  Leaders leaders_;
  StoredRecords stored_;
  AttemptRecords records_;
  ReportReader reader_;
  std::uint64_t floor_ = 0;    // attempts before it are older
  std::uint64_t reached_ = 0;  // from here on all was read
  bool whole_ = true;
  std::vector<Interval> scored_;
  std::optional<OlderScores> scores_;
};

void LeadingRead::merged_here() {
  const auto before = [&](std::uint64_t attempt) {
    return attempt_before(reading_.connection(), range_.run, range_.segment, attempt);
  };
  for (auto part = covered_.merged.rbegin(); part != covered_.merged.rend() && whole_; ++part) {
    const std::uint64_t first = std::max({part->first, range_.first, floor_});
    for (auto attempt = before(std::min(part->last, range_.last) + 1); attempt && *attempt >= first;
         attempt = before(*attempt)) {
      reader_.read({range_.run, range_.segment, *attempt, *attempt, std::nullopt},
                   [&](const RankReports& reports) { records_.add(reports); });
      take_attempt(*attempt);
      stop_if_late(*attempt);
      if (reader_.late()) break;
    }
  }
}

void LeadingRead::merged_older() {
  constexpr std::uint64_t kAtOnce = 64;  // attempts
  OlderReading* const older = reading_.older(range_.run, range_.segment);
  if (older == nullptr || range_.first >= floor_) return;
  // Stretches that overlap go on beyond the range.
  auto left = common({{range_.first, std::min(range_.last, floor_ - 1)}}, covered_.merged);
  while (whole_ && !left.empty()) {
    std::vector<Interval> pieces;
    for (std::uint64_t count = 0; count < kAtOnce && !left.empty();) {
      Interval& from = left.back();
      const std::uint64_t most = kAtOnce - count;
      const std::uint64_t first = from.last - from.first < most ? from.first : from.last - most + 1;
      pieces.push_back({first, from.last});
      count += from.last - first + 1;
      if (first == from.first) {
        left.pop_back();
      } else {
        from.last = first - 1;
      }
    }
    std::reverse(pieces.begin(), pieces.end());
    older->only({}, pieces, true);
    const std::uint64_t end = pieces.back().last;
    std::uint64_t attempt = 0;
    for (std::uint64_t next = pieces.front().first; next <= end;) {
      const auto rest = reader_.read({range_.run, range_.segment, next, end, std::nullopt}, [&](const RankReports& reports) {
        if (reports.front().attempt != attempt) take_attempt(attempt);
        attempt = reports.front().attempt;
        records_.add(reports);
      });
      take_attempt(attempt);
      next = rest.value_or(end + 1);
    }
    stop_if_late(pieces.front().first);
  }
  older->only({});
}

void LeadingRead::scores(std::size_t limit, bool records) {
  for (const auto& part : covered_.scored) {
    if (part.last >= reached_) scored_.push_back({std::max(part.first, reached_), part.last});
  }
  if (scored_.empty()) return;
  reading_.pause();
  scores_.emplace(*reading_.older(), catalog_, reader_, stored_, by_, covered_.wide);
  const bool read =
      scores_->lead(range_, scored_,
                    {.limit = limit,
                     .records = records,
                     .takes = [&](auto tensor) { return takes(tensor); },
                     .record = [&](auto tensor, auto attempt, const auto& one) { leaders_.take(tensor, attempt, one, false); },
                     .score =
                         [&](auto tensor, double score) {
                           if (adds(by_)) leaders_[tensor].sum += score;
                           if (!adds(by_) && !records) leaders_.take_bound(tensor, {.exact = score});
                         }});
  if (!read) reached_ = std::min(floor_, range_.last);
}

void LeadingRead::summaries() {
  SegmentCover chunks = covered_;
  std::erase_if(chunks.stretches, [&](const auto& stretch) { return stretch.attempts.last < reached_; });
  take_summaries(reading_, catalog_, by_, role_, range_, chunks, leaders_);
}

// From the one that may lead on, until what is left can't.
std::vector<std::uint32_t> LeadingRead::rank(std::size_t limit, bool records) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < leaders_.size(); ++i) {
    if (leaders_.most(i)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return *leaders_.most(a) > *leaders_.most(b); });
  std::vector<std::uint32_t> found;
  const auto better = [&](auto a, auto b) {
    const double first = *leaders_.most(a);
    const double second = *leaders_.most(b);
    return first != second ? first > second : a < b;
  };
  ReportRange range = range_;
  range.first = std::max(reached_, floor_);
  for (const auto tensor : order) {
    if (found.size() >= limit) {
      // Those that follow promise no more, and of equal ones the first in forward order leads.
      const auto last = found[limit - 1];
      const double most = *leaders_.most(tensor);
      if (most < *leaders_.most(last) || (most == *leaders_.most(last) && tensor > last)) break;
    }
    if (leaders_.is_open(tensor, records)) {
      leaders_.close(tensor, records);
      Verify verify(by_, tensor, covered_.merged, leaders_);
      TensorSeries(reading_, catalog_, tensor).read_pieces(range, verify);
    }
    if (!leaders_.most(tensor)) continue;
    // Equal ones stay in forward order.
    found.insert(std::upper_bound(found.begin(), found.end(), tensor, better), tensor);
  }
  found.resize(std::min(found.size(), limit));
  if (scores_ && adds(by_) && records) {
    reading_.pause();
    scores_->read_best(range_, scored_, found,
                       [&](auto tensor, auto attempt, const auto& one) { leaders_.take(tensor, attempt, one, false); });
  }
  return found;
}

}  // namespace

std::vector<Api::Top> Api::leading(const Ask& ask, const Catalog& catalog, const SegmentCover& covered, Reading& reading,
                                   std::uint64_t& reached) {
  LeadingRead read(reading, catalog, covered, ask.by, ask.role, ask.range, deadline());
  read.merged_here();
  read.merged_older();
  read.scores(ask.limit, ask.records);
  read.summaries();
  std::vector<Top> top;
  for (const auto tensor : read.rank(ask.limit, ask.records)) {
    auto& leader = read.leaders()[tensor];
    top.push_back({tensor, *read.leaders().most(tensor), leader.attempt, leader.worst});
  }
  reached = read.reached();
  return top;
}

}  // namespace scalewatch::history

// The tensors that lead by one statistic.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "server/history/api_impl.h"
#include "server/history/attempt_records.h"
#include "server/history/keys.h"
#include "server/history/older_scores.h"
#include "server/history/page_token.h"
#include "server/history/scores.h"
#include "server/history/segment_cover.h"
#include "server/history/tensor_series.h"

namespace scalewatch::history {

namespace {

constexpr std::uint64_t kDefaultAttempts = 100;

// The records that lead so far, by position in the catalog.
class Leaders {
 public:
  Leaders(By::By by, std::size_t tensors) : by_(by), leaders_(tensors), bounds_(tensors) {}

  struct Leader {
    std::optional<double> best;
    double sum = 0;
    std::uint64_t attempt = 0;
    Measured worst;
  };

  // Of equal ones the newest leads.
  void take(std::uint32_t tensor, std::uint64_t attempt, const Measured& measured, bool count = true) {
    const auto value = score(by_, measured);
    if (!value) return;
    Leader& leader = leaders_[tensor];
    if (count) leader.sum += *value;
    if (leader.best && (*value < *leader.best || (*value == *leader.best && attempt < leader.attempt))) return;
    leader.best = value;
    leader.attempt = attempt;
    leader.worst = measured;
  }
  // Of what was not read record by record.
  void take_bound(std::uint32_t tensor, const ScoreBound& more) {
    ScoreBound& bound = bounds_[tensor];
    const auto join = [&](double a, double b) { return adds(by_) && a > 0 && b > 0 ? a + b : std::max(a, b); };
    bound.exact = join(bound.exact, more.exact);
    bound.most = join(bound.most, more.most);
  }
  // At least what the tensor is ranked by.
  [[nodiscard]] std::optional<double> most(std::uint32_t tensor) const {
    const ScoreBound& bound = bounds_[tensor];
    if (adds(by_)) {
      const double all = leaders_[tensor].sum + std::max(bound.exact, 0.0) + std::max(bound.most, 0.0);
      return all > 0 ? std::optional(all) : std::nullopt;
    }
    const double all = std::max({leaders_[tensor].best.value_or(ScoreBound::kNone), bound.exact, bound.most});
    return all > ScoreBound::kNone ? std::optional(all) : std::nullopt;
  }
  // Whether the tensor's records must be read before most() is what it is ranked by. `records`: also for which one leads.
  [[nodiscard]] bool is_open(std::uint32_t tensor, bool records) const {
    const ScoreBound& bound = bounds_[tensor];
    if (records) return std::max(bound.exact, bound.most) > ScoreBound::kNone;
    const double known = std::max(leaders_[tensor].best.value_or(ScoreBound::kNone), bound.exact);
    return adds(by_) ? bound.most > 0 : bound.most > known;
  }
  // Its records are read next: what they tell stands for the bounds.
  void close(std::uint32_t tensor, bool records) {
    bounds_[tensor].most = ScoreBound::kNone;
    if (records || adds(by_)) bounds_[tensor].exact = ScoreBound::kNone;
  }
  Leader& operator[](std::uint32_t tensor) { return leaders_[tensor]; }
  [[nodiscard]] std::size_t size() const { return leaders_.size(); }

 private:
  const By::By by_;
  std::vector<Leader> leaders_;
  std::vector<ScoreBound> bounds_;
};

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

}  // namespace

engine::Status Api::top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  return guard(response, [&] { do_top_tensors(request, response); });
}

namespace {

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

}  // namespace

std::vector<Api::Top> Api::leading(const Ask& ask, const Catalog& catalog, const SegmentCover& covered, Reading& reading,
                                   std::uint64_t& reached) {
  Leaders leaders(ask.by, catalog.tensors.size());
  StoredRecords stored(reading);
  AttemptRecords records(catalog, stored);
  ReportReader reader(reading, catalog, deadline());
  reached = ask.range.first;
  bool whole = true;
  const OlderReading* const older = reading.older(ask.range.run, ask.range.segment);
  const std::uint64_t floor = older == nullptr ? 0 : older->floor();
  const auto take_attempt = [&](std::uint64_t attempt) {
    for (const auto tensor : records.present()) {
      if (ask.role != v1::ROLE_UNSPECIFIED && catalog.tensors[tensor].info.role() != ask.role) continue;
      leaders.take(tensor, attempt, records.of(tensor).total());
    }
    records.clear();
  };
  // Newest first, so that what a time limit leaves out is the oldest.
  for (auto part = covered.merged.rbegin(); part != covered.merged.rend() && whole; ++part) {
    const std::uint64_t first = std::max({part->first, ask.range.first, floor});
    for (auto attempt =
             attempt_before(reading.connection(), ask.range.run, ask.range.segment, std::min(part->last, ask.range.last) + 1);
         attempt && *attempt >= first;
         attempt = attempt_before(reading.connection(), ask.range.run, ask.range.segment, *attempt)) {
      reader.read({ask.range.run, ask.range.segment, *attempt, *attempt, std::nullopt},
                  [&](const RankReports& reports) { records.add(reports); });
      take_attempt(*attempt);
      if (reader.late()) {
        reached = *attempt;
        whole = reached == ask.range.first;
        break;
      }
    }
  }
  // What only the shared history has and does not tell together, some attempts at a time.
  constexpr std::uint64_t kAtOnce = 64;
  for (auto part = covered.merged.rbegin(); part != covered.merged.rend() && whole; ++part) {
    for (std::uint64_t end = std::min(part->last + 1, floor); whole && end > part->first;) {
      const std::uint64_t first = std::max(part->first, end > kAtOnce ? end - kAtOnce : 0);
      std::uint64_t attempt = 0;
      for (std::uint64_t next = first; next < end;) {
        const auto rest =
            reader.read({ask.range.run, ask.range.segment, next, end - 1, std::nullopt}, [&](const RankReports& reports) {
              if (reports.front().attempt != attempt) take_attempt(attempt);
              attempt = reports.front().attempt;
              records.add(reports);
            });
        take_attempt(attempt);
        next = rest.value_or(end);
      }
      end = first;
      if (reader.late()) {
        reached = first;
        whole = reached == ask.range.first;
      }
    }
  }
  std::vector<Interval> scored;
  for (const auto& part : covered.scored) {
    if (part.last >= reached) scored.push_back({std::max(part.first, reached), part.last});
  }
  std::optional<OlderScores> scores;
  const auto take_older = [&](auto tensor, auto attempt, const auto& one) { leaders.take(tensor, attempt, one, false); };
  if (!scored.empty()) {
    reading.pause();
    scores.emplace(*reading.older(), catalog, reader, stored, ask.by);
    const bool read = scores->lead(
        ask.range, scored,
        {.limit = ask.limit,
         .records = ask.records,
         .takes = [&](auto i) { return ask.role == v1::ROLE_UNSPECIFIED || catalog.tensors[i].info.role() == ask.role; },
         .record = take_older,
         .score =
             [&](auto tensor, double score) {
               if (adds(ask.by)) leaders[tensor].sum += score;
               if (!adds(ask.by) && !ask.records) leaders.take_bound(tensor, {.exact = score});
             }});
    if (!read) reached = std::min(floor, ask.range.last);
  }
  SegmentCover chunks = covered;
  std::erase_if(chunks.stretches, [&](const auto& stretch) { return stretch.attempts.last < reached; });
  take_summaries(reading, catalog, ask.by, ask.role, ask.range, chunks, leaders);

  // From the one that may lead on, until what is left can't.
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < leaders.size(); ++i) {
    if (leaders.most(i)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return *leaders.most(a) > *leaders.most(b); });
  std::vector<std::uint32_t> found;
  const auto better = [&](auto a, auto b) {
    const double first = *leaders.most(a);
    const double second = *leaders.most(b);
    return first != second ? first > second : a < b;
  };
  ReportRange range = ask.range;
  range.first = std::max(reached, floor);
  for (const auto tensor : order) {
    if (found.size() >= ask.limit) {
      // Those that follow promise no more, and of equal ones the first in forward order leads.
      const auto last = found[ask.limit - 1];
      const double most = *leaders.most(tensor);
      if (most < *leaders.most(last) || (most == *leaders.most(last) && tensor > last)) break;
    }
    if (leaders.is_open(tensor, ask.records)) {
      leaders.close(tensor, ask.records);
      Verify verify(ask.by, tensor, covered.merged, leaders);
      TensorSeries(reading, catalog, tensor).read_pieces(range, verify);
    }
    if (!leaders.most(tensor)) continue;
    // Equal ones stay in forward order.
    found.insert(std::upper_bound(found.begin(), found.end(), tensor, better), tensor);
  }
  found.resize(std::min(found.size(), ask.limit));
  if (scores && adds(ask.by) && ask.records) {
    reading.pause();
    scores->read_best(ask.range, scored, found, take_older);
  }
  std::vector<Top> top;
  for (const auto tensor : found) {
    top.push_back({tensor, *leaders.most(tensor), leaders[tensor].attempt, leaders[tensor].worst});
  }
  return top;
}

void Api::do_top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  const std::size_t limit = checked_limit("limit", request.limit(), 20, 1000);
  if (!By::By_IsValid(request.by())) invalid("by", std::to_string(request.by()) + " is not a statistic");
  const StoredRun run = run_named(request.run());
  Reading reading(pool_, older_);
  auto span = span_of(reading, run, request.range());
  if (!span) return;
  if (request.range().first() == 0 && request.range().last() == 0 && span->last - span->first >= kDefaultAttempts) {
    span->first = span->last - kDefaultAttempts + 1;
  }
  const auto catalog = catalogs_.get(run.id, span->segment);
  std::uint64_t reached = 0;
  const ReportRange range{run.id, span->segment, span->first, span->last, {}};
  const auto leading_ones =
      leading({request.by(), request.role(), limit, true, range}, *catalog, cover(reading, *catalog, range), reading, reached);
  response.mutable_range()->set_segment(span->segment);
  response.mutable_range()->set_first(reached);
  response.mutable_range()->set_last(span->last);
  for (const auto& leader : leading_ones) {
    auto& top = *response.add_tensors();
    *top.mutable_info() = catalog->tensors[leader.tensor].info;
    top.set_value(told(request.by(), leader.score));
    top.set_attempt(adds(request.by()) ? 0 : leader.attempt);
    *top.mutable_worst() = to_proto(leader.worst);
  }
}

}  // namespace scalewatch::history

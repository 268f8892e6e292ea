// The tensors that lead by one statistic.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "server/history/api_impl.h"
#include "server/history/attempt_records.h"
#include "server/history/page_token.h"

namespace scalewatch::history {

namespace {

constexpr std::uint64_t kDefaultAttempts = 100;

using By = v1::TopTensorsRequest;

// Larger leads, so headroom is negated; absent: the tensor does not take part.
std::optional<double> score(By::By by, const Measured& measured) {
  const auto& record = measured.record;
  switch (by) {
    case By::BY_ABSMAX:
      if (std::isnan(record.absmax())) return std::nullopt;
      return record.absmax() / measured.scale;
    case By::BY_UNDERFLOW: {
      const std::uint64_t finite = record.finite();
      if (finite <= record.zero || record.subnormal == 0) return std::nullopt;
      return static_cast<double>(record.subnormal) / static_cast<double>(finite - record.zero);
    }
    case By::BY_NON_FINITE:
      if (record.non_finite() == 0) return std::nullopt;
      return static_cast<double>(record.non_finite());
    case By::BY_NORM:
      if (record.finite() == 0) return std::nullopt;
      return std::sqrt(record.sum_sq) / measured.scale;
    default:
      if (const auto octaves = headroom_of(measured)) return -*octaves;
      return std::nullopt;
  }
}

struct Leader {
  std::optional<double> best;
  double sum = 0;
  std::uint64_t attempt = 0;
  Measured worst;
};

void take(Leader& leader, By::By by, std::uint64_t attempt, const Measured& measured) {
  const auto value = score(by, measured);
  if (!value) return;
  leader.sum += *value;
  if (leader.best && *value <= *leader.best) return;
  leader.best = value;
  leader.attempt = attempt;
  leader.worst = measured;
}

}  // namespace

engine::Status Api::top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  return guard(response, [&] { do_top_tensors(request, response); });
}

void Api::do_top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  const std::size_t limit = checked_limit("limit", request.limit(), 20, 1000);
  if (!By::By_IsValid(request.by())) invalid("by", std::to_string(request.by()) + " is not a statistic");
  const StoredRun run = run_named(request.run());
  auto span = span_of(run, request.range());
  if (!span) return;
  if (request.range().first() == 0 && request.range().last() == 0 && span->last - span->first >= kDefaultAttempts) {
    span->first = span->last - kDefaultAttempts + 1;
  }
  const auto catalog = catalogs_.get(run.id, span->segment);
  std::vector<Leader> leaders(catalog->tensors.size());
  AttemptRecords records(*catalog);
  ReportReader reader(pool_, *catalog, deadline());
  std::uint64_t reached = span->first;
  // Newest first, so that what a time limit leaves out is the oldest.
  for (auto attempt = attempt_before(pool_, run.id, span->segment, span->last + 1); attempt && *attempt >= span->first;
       attempt = attempt_before(pool_, run.id, span->segment, *attempt)) {
    reader.read({run.id, span->segment, *attempt, *attempt, std::nullopt},
                [&](const RankReports& reports) { records.add(reports); });
    for (const auto tensor : records.present()) {
      if (request.role() != v1::ROLE_UNSPECIFIED && catalog->tensors[tensor].info.role() != request.role()) continue;
      take(leaders[tensor], request.by(), *attempt, records.of(tensor).total());
    }
    records.clear();
    if (reader.late()) {
      reached = *attempt;
      break;
    }
  }
  response.mutable_range()->set_segment(span->segment);
  response.mutable_range()->set_first(reached);
  response.mutable_range()->set_last(span->last);

  const bool sums = request.by() == By::BY_NON_FINITE;
  const auto rank_of = [&](const Leader& leader) { return sums ? leader.sum : *leader.best; };
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < leaders.size(); ++i) {
    if (leaders[i].best) order.push_back(i);
  }
  // Equal ones stay in forward order.
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rank_of(leaders[a]) > rank_of(leaders[b]); });
  order.resize(std::min(order.size(), limit));
  for (const auto i : order) {
    auto& top = *response.add_tensors();
    *top.mutable_info() = catalog->tensors[i].info;
    const bool is_headroom = request.by() == By::BY_HEADROOM || request.by() == By::BY_UNSPECIFIED;
    top.set_value(is_headroom ? -*leaders[i].best : rank_of(leaders[i]));
    top.set_attempt(sums ? 0 : leaders[i].attempt);
    *top.mutable_worst() = to_proto(leaders[i].worst);
  }
}

}  // namespace scalewatch::history

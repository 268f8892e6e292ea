// The tensors that lead by one statistic: the request.
#include "server/history/api_impl.h"
#include "server/history/page_token.h"
#include "server/history/scores.h"
#include "server/history/segment_cover.h"

namespace scalewatch::history {

namespace {

constexpr std::uint64_t kDefaultAttempts = 100;

}  // namespace

engine::Status Api::top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  return guard(response, [&] { do_top_tensors(request, response); });
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

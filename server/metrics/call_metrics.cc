#include "server/metrics/call_metrics.h"

#include <utility>

#include "server/engine/latency.h"

namespace scalewatch::metrics {

CallMetrics::CallMetrics(prometheus::Registry& registry, Id calls, Id durations, std::string what)
    : calls_(prometheus::BuildCounter().Name(metric(calls).name).Help(metric(calls).help).Register(registry)),
      durations_(prometheus::BuildHistogram().Name(metric(durations).name).Help(metric(durations).help).Register(registry)),
      what_(std::move(what)) {}

void CallMetrics::ended(const std::string& what, const std::string& code, std::optional<double> seconds) {
  calls_.Add({{what_, what}, {"code", code}}).Increment();
  if (!seconds) return;
  constexpr auto kBounds = engine::LatencyHistogram::kBounds;
  durations_.Add({{what_, what}}, prometheus::Histogram::BucketBoundaries{kBounds.begin(), kBounds.end()}).Observe(*seconds);
}

}  // namespace scalewatch::metrics

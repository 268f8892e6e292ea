#include "server/metrics/rpc_metrics.h"

#include "server/engine/latency.h"
#include "server/metrics/catalog.h"

namespace scalewatch::metrics {

RpcMetrics::RpcMetrics(prometheus::Registry& registry)
    : calls_(prometheus::BuildCounter().Name(metric(Id::kRpcs).name).Help(metric(Id::kRpcs).help).Register(registry)),
      durations_(prometheus::BuildHistogram()
                     .Name(metric(Id::kRpcDuration).name)
                     .Help(metric(Id::kRpcDuration).help)
                     .Register(registry)) {}

void RpcMetrics::ended(const std::string& method, const std::string& code, std::optional<double> seconds) {
  calls_.Add({{"method", method}, {"code", code}}).Increment();
  if (!seconds) return;
  constexpr auto kBounds = engine::LatencyHistogram::kBounds;
  durations_.Add({{"method", method}}, prometheus::Histogram::BucketBoundaries{kBounds.begin(), kBounds.end()})
      .Observe(*seconds);
}

}  // namespace scalewatch::metrics

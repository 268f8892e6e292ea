// How many calls of the gRPC API ended how, and what those with one answer took. Thread-safe.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <optional>
#include <string>

namespace scalewatch::metrics {

class RpcMetrics {
 public:
  explicit RpcMetrics(prometheus::Registry& registry);

  // `method` is one of the API's own, such as "History/ListRuns"; `code`, a status code's name, such as "NOT_FOUND". `seconds`
  // is absent for a stream.
  void ended(const std::string& method, const std::string& code, std::optional<double> seconds);

 private:
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Family<prometheus::Histogram>& durations_;
};

}  // namespace scalewatch::metrics

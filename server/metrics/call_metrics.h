// How many calls of an API ended how, and what those with one answer took. Thread-safe.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <optional>
#include <string>

#include "server/metrics/catalog.h"

namespace scalewatch::metrics {

class CallMetrics {
 public:
  // `calls` and `durations` are labelled with what was called and, the first one, with how it ended: a label "code".
  CallMetrics(prometheus::Registry& registry, Id calls, Id durations, std::string what);

  // `what` is one of few, such as "History/ListRuns" or "/api/v1/runs/{run}"; `code` a status's name or number, such as
  // "NOT_FOUND". `seconds` is absent for a stream.
  void ended(const std::string& what, const std::string& code, std::optional<double> seconds);

 private:
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Family<prometheus::Histogram>& durations_;
  const std::string what_;
};

}  // namespace scalewatch::metrics

// Builds metric families at scrape time. Not thread-safe: one scrape owns one.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <deque>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace scalewatch::metrics {

using Labels = std::vector<prometheus::ClientMetric::Label>;

class Family {
 public:
  Family(const char* name, const char* help, prometheus::MetricType type) { family_ = {name, help, type, {}}; }
  void add(Labels labels, double value) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    // Gauges and counters hold the same number in different members; the serializer reads the one of the type.
    metric.gauge.value = value;
    metric.counter.value = value;
    family_.metric.push_back(std::move(metric));
  }

 private:
  friend class Families;
  prometheus::MetricFamily family_;
};

class Families {
 public:
  // References stay valid until take().
  Family& gauge(const char* name, const char* help) {
    return families_.emplace_back(name, help, prometheus::MetricType::Gauge);
  }
  Family& counter(const char* name, const char* help) {
    return families_.emplace_back(name, help, prometheus::MetricType::Counter);
  }
  // What was built; families without a sample are left out.
  std::vector<prometheus::MetricFamily> take() {
    std::vector<prometheus::MetricFamily> out;
    for (Family& family : families_) {
      if (!family.family_.metric.empty()) out.push_back(std::move(family.family_));
    }
    families_.clear();
    return out;
  }

 private:
  std::deque<Family> families_;
};

}  // namespace scalewatch::metrics

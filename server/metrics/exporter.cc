#include "server/metrics/exporter.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <utility>

#include "server/metrics/families.h"
#include "server/metrics/run_metrics.h"
#include "server/metrics/server_metrics.h"

namespace scalewatch::metrics {

struct Exporter::Impl final : prometheus::Collectable {
  Impl(const Options& opts, Sources from, const std::string& version)
      : options(opts),
        sources(std::move(from)),
        scrapes(prometheus::BuildCounter()
                    .Name("scalewatch_scrapes_total")
                    .Help("Times that this page was asked for.")
                    .Register(registry)
                    .Add({})) {
    prometheus::BuildGauge()
        .Name("scalewatch_build_info")
        .Help("Version of the server; always 1.")
        .Register(registry)
        .Add({{"version", version}})
        .Set(1);
  }

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    Families families;
    add_run_metrics(sources.overviews(), options, sources.wall_ms(), families);
    add_engine_metrics(sources.stats(), families);
    add_sink_metrics(sources.sinks(), families);
    add_process_metrics(families);
    return families.take();
  }

  Options options;
  Sources sources;
  prometheus::Registry registry;  // series that live as long as the server
  prometheus::Counter& scrapes;
};

Exporter::Exporter(Options options, Sources sources, const std::string& version)
    : impl_(std::make_unique<Impl>(options, std::move(sources), version)) {}
Exporter::~Exporter() = default;

std::string Exporter::page() const {
  impl_->scrapes.Increment();
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  auto live = impl_->Collect();
  families.insert(families.end(), std::make_move_iterator(live.begin()), std::make_move_iterator(live.end()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace scalewatch::metrics

#include "server/metrics/exporter.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "server/metrics/call_metrics.h"
#include "server/metrics/ended_runs.h"
#include "server/metrics/page.h"
#include "server/metrics/run_metrics.h"
#include "server/metrics/server_metrics.h"

namespace scalewatch::metrics {

struct Exporter::Impl {
  Impl(const Options& opts, Sources from, const std::string& version)
      : options(opts),
        sources(std::move(from)),
        rpcs(registry, Id::kRpcs, Id::kRpcDuration, "method"),
        http(registry, Id::kHttpRequests, Id::kHttpDuration, "route"),
        scrapes(prometheus::BuildCounter()
                    .Name(metric(Id::kScrapes).name)
                    .Help(metric(Id::kScrapes).help)
                    .Register(registry)
                    .Add({})) {
    prometheus::BuildGauge()
        .Name(metric(Id::kBuildInfo).name)
        .Help(metric(Id::kBuildInfo).help)
        .Register(registry)
        .Add({{"version", version}})
        .Set(1);
  }

  const Options options;
  const Sources sources;
  prometheus::Registry registry;  // what events count: series that live as long as the server
  CallMetrics rpcs;
  CallMetrics http;
  prometheus::Counter& scrapes;
  EndedRuns ended;
};

Exporter::Exporter(Options options, Sources sources, const std::string& version)
    : impl_(std::make_unique<Impl>(options, std::move(sources), version)) {}
Exporter::~Exporter() = default;

std::string Exporter::page() const {
  impl_->scrapes.Increment();
  const std::int64_t now = impl_->sources.wall_ms();
  std::vector<engine::RunShown> runs = impl_->sources.runs();
  impl_->ended.complete(runs, impl_->options, now);
  Page page;
  const StoreSample store = impl_->sources.store();
  add_run_metrics(runs, store, impl_->options, now, page);
  add_engine_metrics(impl_->sources.stats(), page);
  add_store_metrics(store, page);
  add_sink_metrics(impl_->sources.sinks(), page);
  if (impl_->sources.unreadable_alerts) {
    page.add(Id::kUnreadableAlerts, {}, static_cast<double>(impl_->sources.unreadable_alerts()));
  }
  add_reload_metrics(impl_->sources.reloads(), page);
  if (impl_->sources.fleet) {
    if (const auto fleet = impl_->sources.fleet()) add_fleet_metrics(*fleet, page);
  }
  if (impl_->sources.refusals) add_refusal_metrics(impl_->sources.refusals(), page);
  add_process_metrics(page);
  return page.take() + prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

void Exporter::remember_ended(std::vector<engine::RunShown> ended) {
  impl_->ended.remember(std::move(ended), impl_->options);
}

void Exporter::rpc_ended(const std::string& method, const std::string& code, std::optional<double> seconds) {
  impl_->rpcs.ended(method, code, seconds);
}

void Exporter::http_ended(const std::string& route, unsigned status, double seconds) {
  impl_->http.ended(route, std::to_string(status), seconds);
}

}  // namespace scalewatch::metrics

#include "server/app/server.h"

#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/alerting/alert_book.h"
#include "server/alerting/alerts_api.h"
#include "server/alerting/alerts_service.h"
#include "server/alerting/delivery.h"
#include "server/alerting/sink_tester.h"
#include "server/app/alert_log.h"
#include "server/app/grpc_listener.h"
#include "server/app/port_file.h"
#include "server/app/system_clock.h"
#include "server/app/version.h"
#include "server/engine/engine.h"
#include "server/history/history_api.h"
#include "server/history/history_service.h"
#include "server/history/sqlite_store.h"
#include "server/http/server.h"
#include "server/ingest/ingest_service.h"
#include "server/metrics/exporter.h"

namespace scalewatch::app {
namespace {

using std::chrono::milliseconds;

std::vector<metrics::SinkSample> sink_samples(const alerting::Delivery& delivery) {
  const std::vector<alerting::SinkStats> all = delivery.stats();
  std::vector<metrics::SinkSample> out;
  out.reserve(all.size());
  for (const alerting::SinkStats& stats : all) {
    out.push_back({stats.name, stats.delivered, stats.failed, stats.given_up, stats.pending});
  }
  return out;
}

alerting::DeliveryOptions delivery_options(const Config& config) {
  alerting::DeliveryOptions options;
  options.stop_grace = std::min(options.stop_grace, config.alert_flush);
  return options;
}

engine::EngineOptions engine_options(const Config& config) {
  engine::EngineOptions options = config.engine;
  options.thresholds_of = [&config](const std::string& run) { return thresholds_of(config, run); };
  return options;
}

http::Options http_options(const Config& config) {
  http::Options options = config.http;
  options.address = config.http_address.host;
  options.port = config.http_address.port;
  return options;
}

}  // namespace

struct Server::Impl {
  enum class Phase : std::uint8_t { kStarting, kReady, kStopping };

  // HTTP listens first: a port in use is told before a long load, and /healthz answers during it.
  explicit Impl(const Config& from)
      : config(from),
        exporter(config.metrics, metrics_sources(), kVersion),
        http(http_options(config), http_sources()),
        store(history::SqliteStore::open(config.data_dir, config.history)),
        delivery(config.sinks, *store, clock, delivery_options(config)),
        book(config.sinks, config.alerts, clock, [this](const engine::CommitBatch& batch) { delivery.committed(batch); }),
        tester(config.sinks, clock),
        loaded(load_alerts()),
        engine(engine_options(config), *store, book, clock),
        history(history::make_history_api(*store)),
        alerts(
            *store, [this](const std::string& run) { return store->find_run(run); },
            [this](const std::string& id, const std::string& who, const std::string& comment, auto done) {
              engine.acknowledge(id, who, comment, std::move(done));
            },
            book, tester),
        grpc(config.grpc_address, config.grpc, config.engine.limits.max_message_bytes(), make_services()),
        alert_log(engine.alert_feed()) {
    delivery.start([this](std::vector<engine::OutboxUpdate> updates) { engine.submit(std::move(updates)); });
    book.start([this](engine::CommitBatch batch,
                      std::function<void()> on_durable) { engine.submit(std::move(batch), std::move(on_durable)); },
               [this](const v1::Alert& alert) { engine.alert_feed().publish(std::make_shared<v1::Alert>(alert)); });
    phase = Phase::kReady;
    announce();
  }

  // Before the engine: what it finds goes on from there.
  bool load_alerts() {
    book.load(*store);
    return true;
  }

  ~Impl() { stop(); }

  std::vector<std::unique_ptr<grpc::Service>> make_services() {
    std::vector<std::unique_ptr<grpc::Service>> services;
    services.push_back(ingest::make_ingest_service(engine));
    services.push_back(history::make_history_service(*history, engine.run_feed(), *store));
    services.push_back(alerting::make_alerts_service(alerts, engine.alert_feed()));
    return services;
  }

  // Last: whoever reads the port file may connect. A file that cannot be written undoes the start.
  void announce() {
    if (config.port_file.empty()) return;
    try {
      write_port_file(config.port_file, grpc.port(), http.port());
    } catch (...) {
      stop();
      throw;
    }
  }

  // What follows runs on HTTP's threads, also while the members below `http` are being made: they are touched when ready only.
  metrics::Sources metrics_sources() {
    return {[this] { return phase == Phase::kStarting ? decltype(engine.overviews())() : engine.overviews(); },
            [this] { return phase == Phase::kStarting ? engine::EngineStats() : engine.stats(); },
            [this] { return phase == Phase::kStarting ? std::vector<metrics::SinkSample>() : sink_samples(delivery); },
            [this] { return clock.wall_ms(); }};
  }
  http::Sources http_sources() {
    return {[this] { return exporter.page(); }, [this] { return not_ready(); },
            [this] { return phase == Phase::kReady ? history.get() : nullptr; },
            [this] { return phase == Phase::kReady ? &alerts : nullptr; }};
  }
  std::string not_ready() const {
    if (phase == Phase::kStarting) return "starting: runs are being loaded";
    if (phase == Phase::kStopping) return "stopping";
    if (engine.stats().history_degraded) return "history is degraded: the store refuses commits";
    return {};
  }

  void stop() {
    if (phase.exchange(Phase::kStopping) == Phase::kStopping) return;
    book.stop();
    flush_alerts();
    delivery.stop();
    engine.stop();
    grpc.stop();
    http.stop();
    if (!config.port_file.empty()) remove_port_file(config.port_file);
  }

  // Lets alerts that are under way be delivered; what is left is sent after the next start.
  void flush_alerts() {
    const auto pending = [this] {
      const auto stats = delivery.stats();
      return std::any_of(stats.begin(), stats.end(), [](const auto& sink) { return sink.pending > 0; });
    };
    const auto deadline = std::chrono::steady_clock::now() + config.alert_flush;
    while (pending() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(milliseconds(20));
  }

  const Config config;
  std::atomic<Phase> phase{Phase::kStarting};
  SystemClock clock;
  metrics::Exporter exporter;
  http::Server http;
  const std::unique_ptr<history::SqliteStore> store;
  alerting::Delivery delivery;
  alerting::AlertBook book;
  alerting::SinkTester tester;
  const bool loaded;
  engine::Engine engine;
  const std::unique_ptr<engine::HistoryApi> history;
  alerting::StoredAlerts alerts;
  GrpcListener grpc;
  AlertLog alert_log;
};

Server::Server(const Config& config) : impl_(std::make_unique<Impl>(config)) {}
Server::~Server() = default;

std::uint16_t Server::grpc_port() const {
  return impl_->grpc.port();
}
std::uint16_t Server::http_port() const {
  return impl_->http.port();
}
void Server::stop() {
  impl_->stop();
}

}  // namespace scalewatch::app

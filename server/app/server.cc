#include "server/app/server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/alerting/alert_book.h"
#include "server/alerting/alerts_api.h"
#include "server/alerting/alerts_service.h"
#include "server/alerting/delivery.h"
#include "server/alerting/http_sender.h"
#include "server/alerting/sink_tester.h"
#include "server/app/alert_log.h"
#include "server/app/config_diff.h"
#include "server/app/fleet_wiring.h"
#include "server/app/grpc_listener.h"
#include "server/app/held_runs.h"
#include "server/app/log.h"
#include "server/app/metrics_samples.h"
#include "server/app/port_file.h"
#include "server/app/system_clock.h"
#include "server/app/version.h"
#include "server/engine/engine.h"
#include "server/engine/rule_book.h"
#include "server/engine/snapshot.h"
#include "server/history/clickhouse/feeder.h"
#include "server/history/clickhouse/older.h"
#include "server/history/clickhouse/shared.h"
#include "server/history/history_api.h"
#include "server/history/history_service.h"
#include "server/history/sqlite_store.h"
#include "server/http/server.h"
#include "server/ingest/ingest_service.h"
#include "server/metrics/exporter.h"

namespace scalewatch::app {
namespace {

using std::chrono::milliseconds;

alerting::DeliveryOptions delivery_options(const Config& config) {
  alerting::DeliveryOptions options;
  options.stop_grace = std::min(options.stop_grace, config.alert_flush);
  return options;
}

// Of the run of a name, as this configuration has them.
engine::RuleBook::Of rules_of(std::shared_ptr<const Config> config) {
  return [config = std::move(config)](const std::string& run) { return thresholds_of(*config, run); };
}

engine::EngineOptions engine_options(const std::shared_ptr<const Config>& config) {
  engine::EngineOptions options = config->engine;
  options.thresholds_of = rules_of(config);
  return options;
}

// The configuration can't be read again, whatever it says.
class CannotReload : public std::runtime_error {
 public:
  CannotReload(engine::Status::Code why, const std::string& what) : std::runtime_error(what), code(why) {}
  engine::Status::Code code;
};

http::Options http_options(const Config& config, const std::shared_ptr<auth::Certificates>& certificates) {
  http::Options options = config.http;
  options.address = config.http_address.host;
  options.port = config.http_address.port;
  options.certificates = certificates;
  options.own_names_only = config.http_address.loopback() && config.gate.tokens_file.empty();
  options.public_host = alerting::url_host(config.public_url);
  return options;
}

}  // namespace

struct Server::Impl {
  enum class Phase : std::uint8_t { kStarting, kReady, kStopping };

  // HTTP listens first: a port in use is told before a long load, and /healthz answers during it.
  Impl(const Config& from, ReadConfig read)
      : config(from),
        read_again(std::move(read)),
        running(std::make_shared<const Config>(from)),
        gate(config.gate),
        exporter(config.metrics, metrics_sources(), kVersion),
        certificates(config.tls.on() ? std::make_shared<auth::Certificates>(config.tls) : nullptr),
        http(http_options(config, certificates), http_sources()),
        store(history::SqliteStore::open(config.data_dir, config.history)),
        delivery(config.sinks, *store, clock, delivery_options(config)),
        book(config.sinks, config.alerts, clock, [this](const engine::CommitBatch& batch) { delivery.committed(batch); }),
        tester(config.sinks, clock),
        loaded(load_alerts()),
        shared(make_shared_history()),
        feeder(make_feeder()),
        older(config.clickhouse.enabled() ? std::make_unique<clickhouse::Older>(config.clickhouse) : nullptr),
        fleet(FleetWiring::make(config, *store, shared.get(), feeder.get(), book)),
        engine(replicated(in_fleet(engine_options(running))), *store, book, clock),
        held(store->retention(), engine, book),
        history(history::make_history_api(*store, {}, older.get())),
        alerts(
            *store, [this](const std::string& run) { return store->find_run(run); },
            [this](const std::string& id, const std::string& who, const std::string& comment, auto done) {
              engine.acknowledge(id, who, comment, std::move(done));
            },
            book, tester),
        grpc(config.grpc_address, config.grpc, config.engine.limits.max_message_bytes(), {certificates, !gate.open()},
             make_services(),
             [this](const auto& method, const auto& code, auto seconds) { exporter.rpc_ended(method, code, seconds); }),
        alert_log(engine.alert_feed()) {
    delivery.start([this](std::vector<engine::OutboxUpdate> updates) { engine.submit(std::move(updates)); });
    book.start([this](engine::CommitBatch batch,
                      std::function<void()> on_durable) { engine.submit(std::move(batch), std::move(on_durable)); },
               [this](const v1::Alert& alert) { engine.alert_feed().publish(std::make_shared<v1::Alert>(alert)); });
    book.measure_lag([this] { return engine.stats().lag_seconds; });
    if (feeder) feeder->start([this](const std::string& run_uid) { engine.replicated(run_uid); });
    if (fleet) fleet->fleet().start(engine);
    reloads.success_ms = clock.wall_ms();
    remember_ended();
    phase = Phase::kReady;
    announce();
  }

  // Runs that ended before this start stay on /metrics for as long as is configured. They are for display: one that can't be
  // read is left out.
  void remember_ended() {
    std::vector<engine::RunShown> ended;
    const std::int64_t since = clock.wall_ms() - config.metrics.finished_for.count();
    try {
      for (const std::string& name : store->ended_since(since, config.metrics.max_runs)) {
        v1::GetRunRequest request;
        request.set_run(name);
        auto overview = std::make_shared<v1::GetRunResponse>();
        if (!history->get_run(request, *overview).ok()) continue;
        std::shared_ptr<const engine::RunReadings> readings;
        if (const auto snapshot = store->newest_snapshot(overview->run().run_uid())) {
          if (auto then = engine::readings_in(snapshot->state)) {
            readings = std::make_shared<const engine::RunReadings>(*std::move(then));
          }
        }
        ended.push_back({std::move(overview), std::move(readings)});
      }
    } catch (const engine::StoreError& error) {
      log::warning("runs that ended lately are not on /metrics", {{"error", error.what()}});
    }
    exporter.remember_ended(std::move(ended));
  }

  // Before the engine: what it finds goes on from there.
  bool load_alerts() {
    // In a fleet another server may bring the run.
    if (config.fleet.on()) {
      book.load(*store);
    } else {
      book.load(*store, [this](const std::string& run_uid) { return store->find_run(run_uid).has_value(); });
    }
    return true;
  }

  ~Impl() { stop(); }

  // Whose a run is, where several servers share them.
  engine::EngineOptions in_fleet(engine::EngineOptions options) const {
    if (!fleet) return options;
    options.placement = &fleet->fleet();
    options.instance = config.fleet.self;
    return options;
  }
  std::unique_ptr<clickhouse::Shared> make_shared_history() const {
    return config.clickhouse.enabled() ? std::make_unique<clickhouse::Shared>(config.clickhouse, clock) : nullptr;
  }
  std::unique_ptr<clickhouse::Feeder> make_feeder() const {
    if (!config.clickhouse.enabled()) return nullptr;
    const clickhouse::Feeder::Who who{config.fleet.on() ? config.fleet.self : config.grpc_address.text(), config.fleet.on()};
    return std::make_unique<clickhouse::Feeder>(config.clickhouse, who, *store, clock);
  }
  engine::EngineOptions replicated(engine::EngineOptions options) const {
    options.replication = feeder.get();
    options.keep_until_replicated = config.clickhouse.required;
    return options;
  }
  // What clients ask: of all servers, where there are several.
  engine::HistoryApi& asked_history() { return fleet ? fleet->history() : *history; }
  engine::AlertsApi& asked_alerts() {
    if (fleet) return fleet->alerts();
    return alerts;
  }

  std::vector<std::unique_ptr<grpc::Service>> make_services() {
    if (fleet) fleet->serve(*history, alerts);
    std::vector<std::unique_ptr<grpc::Service>> services;
    services.push_back(ingest::make_ingest_service(engine, &gate));
    services.push_back(history::make_history_service(asked_history(), engine.run_feed(), *store,
                                                     {.gate = &gate, .fleet = fleet ? fleet->history_service() : nullptr}));
    services.push_back(alerting::make_alerts_service(
        alerts, engine.alert_feed(),
        {.reload = [this](const auto& request, auto& response) { return reload_for(request, response); },
         .gate = &gate,
         .name_of = [this](const std::string& run) { return name_of(run); },
         .fleet = fleet ? fleet->alerts_service() : nullptr}));
    return services;
  }

  // All is read and checked before anything changes.
  ConfigDiff reload() {
    if (phase == Phase::kStarting) throw CannotReload(engine::Status::kUnavailable, "the server is starting");
    if (phase == Phase::kStopping) throw CannotReload(engine::Status::kUnavailable, "the server is stopping");
    if (!read_again) {
      throw CannotReload(engine::Status::kFailedPrecondition,
                         "the server was started without --config: there is no file to read again");
    }
    const Config wanted = read_again();
    const auto next = std::make_shared<const Config>(with_live_part(*running, wanted));
    validate(*next);
    ConfigDiff diff = differences(*running, wanted);
    if (diff.alerting) {
      delivery.reconfigure(next->sinks);
      book.reconfigure(next->sinks, next->alerts);
      tester.reconfigure(next->sinks);
    }
    if (diff.rules) engine.change_rules(rules_of(next));
    running = next;
    return diff;
  }

  // The same with one line in the log, whatever comes of it.
  ConfigDiff logged_reload(const std::string& by) {
    std::lock_guard lock(reload_mutex);
    try {
      ConfigDiff diff = reload();
      reloads.success_ms = clock.wall_ms();
      reloads.last_successful = true;
      ++reloads.reloads;
      log::info("configuration reloaded", {{"by", by},
                                           {"applied", fmt::format("{}", fmt::join(diff.live, "; "))},
                                           {"need_restart", fmt::format("{}", fmt::join(diff.need_restart, "; "))}});
      return diff;
    } catch (const CannotReload& error) {
      log::warning("configuration not read again", {{"by", by}, {"why", error.what()}});
      throw;
    } catch (const std::exception& error) {
      reloads.last_successful = false;
      ++reloads.failures;
      log::error("configuration not reloaded: all stays as it was", {{"by", by}, {"error", error.what()}});
      throw;
    }
  }

  engine::Status reload_for(const v1::ReloadConfigurationRequest& request, v1::ReloadConfigurationResponse& response) {
    try {
      const ConfigDiff diff = logged_reload(request.who());
      response.mutable_applied()->Add(diff.live.begin(), diff.live.end());
      response.mutable_need_restart()->Add(diff.need_restart.begin(), diff.need_restart.end());
      return {};
    } catch (const CannotReload& error) {
      return {error.code, error.what()};
    } catch (const ConfigError& error) {
      return {engine::Status::kInvalidArgument, error.what()};
    } catch (const std::exception& error) {
      return {engine::Status::kInternal, error.what()};
    }
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
    return {[this] { return phase == Phase::kStarting ? decltype(engine.shown())() : engine.shown(); },
            [this] { return phase == Phase::kStarting ? engine::EngineStats() : engine.stats(); },
            [this] {
              return phase == Phase::kStarting ? std::vector<metrics::SinkSample>() : sink_samples(delivery, clock.wall_ms());
            },
            [this] {
              return phase == Phase::kStarting ? metrics::StoreSample() : store_sample(*store, config.data_dir, feeder.get());
            },
            [this] { return reload_sample(reloads); },
            [this] { return clock.wall_ms(); },
            [this] { return phase == Phase::kStarting ? std::uint64_t{0} : std::uint64_t{book.unreadable()}; },
            [this] { return refusal_sample(gate); },
            [this] { return fleet_sample(); }};
  }
  std::optional<metrics::FleetSample> fleet_sample() const {
    if (phase == Phase::kStarting || !fleet) return std::nullopt;
    const fleet::Stats now = fleet->fleet().stats();
    return metrics::FleetSample{now.peers_alive, now.peers - now.peers_alive, now.moved, now.taken_over, now.yielded};
  }
  http::Sources http_sources() {
    return {[this] { return exporter.page(); },
            [this] { return not_ready(); },
            [this] { return phase == Phase::kReady ? &asked_history() : nullptr; },
            [this] { return phase == Phase::kReady ? &asked_alerts() : nullptr; },
            &gate,
            [this](const std::string& run) { return name_of(run); },
            [this](const std::string& route, unsigned status, double seconds) { exporter.http_ended(route, status, seconds); }};
  }
  std::string name_of(const std::string& run) const {
    const auto row = store->find_run(run);
    return row ? row->name : std::string();
  }
  std::string not_ready() const {
    if (phase == Phase::kStarting) return "starting: runs are being loaded";
    if (phase == Phase::kStopping) return "stopping";
    if (engine.stats().history_degraded) return "history is degraded: the store refuses commits";
    return {};
  }

  void stop() {
    if (phase.exchange(Phase::kStopping) == Phase::kStopping) return;
    { std::lock_guard under_way(reload_mutex); }  // none begins from now on
    if (fleet) {
      grpc.say_leaving();
      fleet->fleet().drain();
    }
    book.stop();
    flush_alerts();
    delivery.stop();
    if (fleet) fleet->fleet().stop();
    engine.stop();
    if (feeder) feeder->stop(config.alert_flush);  // what is left goes after the next start
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

  const Config config;  // as at the start
  const ReadConfig read_again;
  std::mutex reload_mutex;
  std::shared_ptr<const Config> running;  // with what was reloaded; guarded by reload_mutex
  engine::ReloadStatus reloads;
  std::atomic<Phase> phase{Phase::kStarting};
  SystemClock clock;
  auth::Gate gate;
  metrics::Exporter exporter;
  const std::shared_ptr<auth::Certificates> certificates;  // null: no TLS
  http::Server http;
  const std::unique_ptr<history::SqliteStore> store;
  alerting::Delivery delivery;
  alerting::AlertBook book;
  alerting::SinkTester tester;
  const bool loaded;
  const std::unique_ptr<clickhouse::Shared> shared;  // null: there is no shared history
  const std::unique_ptr<clickhouse::Feeder> feeder;
  const std::unique_ptr<clickhouse::Older> older;
  const std::unique_ptr<FleetWiring> fleet;  // null: this server is alone
  engine::Engine engine;
  const HeldRuns held;
  const std::unique_ptr<engine::HistoryApi> history;
  alerting::StoredAlerts alerts;
  GrpcListener grpc;
  AlertLog alert_log;
};

Server::Server(const Config& config, ReadConfig read_again) : impl_(std::make_unique<Impl>(config, std::move(read_again))) {}
Server::~Server() = default;

std::uint16_t Server::grpc_port() const {
  return impl_->grpc.port();
}
std::uint16_t Server::http_port() const {
  return impl_->http.port();
}
void Server::reload(const std::string& by) {
  try {
    impl_->logged_reload(by);
  } catch (const std::exception&) {
    // It is in the log.
  }
}
const engine::ReloadStatus& Server::reloads() const {
  return impl_->reloads;
}
void Server::stop() {
  impl_->stop();
}

}  // namespace scalewatch::app

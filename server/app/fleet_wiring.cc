#include "server/app/fleet_wiring.h"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "server/app/log.h"
#include "server/history/feed_state.h"
#include "server/history/store_watch.h"

namespace scalewatch::app {

namespace {

constexpr int kReconnectMs = 1000;  // a server that comes back is seen at its next probe, not minutes later

std::string read_file(const std::string& key, const std::string& path) {
  if (path.empty()) return {};
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.good() && text.empty()) throw std::runtime_error(key + ": cannot read " + path);
  return text;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

fleet::Peers::MakeChannel channels(const Config& config) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = read_file("fleet.ca", config.fleet.ca);
  if (!config.tls.client_ca.empty()) {  // the others ask for one, too
    tls.pem_cert_chain = read_file("tls.certificate", config.tls.certificate);
    tls.pem_private_key = read_file("tls.key", config.tls.key);
  }
  const auto credentials = config.fleet.ca.empty() ? grpc::InsecureChannelCredentials() : grpc::SslCredentials(tls);
  return [credentials](const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs / 2);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(-1);  // what another server answered a client fits into a message
    return grpc::CreateCustomChannel(address, credentials, arguments);
  };
}

// What changes is committed with the engine's next transaction.
void alerts_move(alerting::AlertBook& book, const std::string& run_uid, const std::function<engine::CommitBatch()>& move) {
  try {
    if (engine::CommitBatch batch = move(); !batch.empty()) book.submit(std::move(batch), {});
  } catch (const engine::StoreError& error) {
    log::error("alerts of a run that moves cannot be read", {{"run_uid", run_uid}, {"error", error.what()}});
  }
}

fleet::Parts parts_of(const Config& config, history::SqliteStore& store, history::SharedHistory* shared,
                      history::SharedFeed* feed, alerting::AlertBook& book) {
  fleet::Parts parts{.store = store, .shared = shared, .feed = feed};
  parts.required = config.clickhouse.required;
  parts.has_room = [&store, folder = config.data_dir] {
    constexpr std::uint64_t kRun = std::uint64_t{8} << 20;
    std::error_code unknown;
    const auto disk = std::filesystem::space(folder, unknown);
    const auto kept = store.ballast();
    // Room that was given for alerts comes back first.
    return unknown || disk.available >= (kept.now < kept.wanted ? 2 * kept.wanted : kRun);
  };
  if (shared != nullptr) {
    parts.import = [shared, &store](const std::string& run_uid, std::uint64_t term) {
      return history::import_run(*shared, run_uid, term, store);
    };
    const auto state = std::make_shared<history::FeedState>(store);
    parts.last_place = [state](const std::string& run_uid) { return state->last_place(run_uid); };
    parts.doubted = [state] { return state->doubted(); };
    parts.trust = [state](const std::string& run_uid) { state->trust(run_uid); };
  }
  parts.alerts_come = [&book, &store](const std::string& run_uid) {
    alerts_move(book, run_uid, [&] {
      const auto row = store.find_run(run_uid);
      return book.take_run(run_uid, row ? row->last_report_ms : 0);
    });
  };
  parts.alerts_go = [&book](const std::string& run_uid) {
    alerts_move(book, run_uid, [&] { return book.leave_run(run_uid); });
  };
  parts.left_open = [&book](const std::string& run_uid) { return book.left_open(run_uid); };
  parts.end_alerts = [&book](const std::vector<std::string>& ids) { book.submit(book.end_left(ids), {}); };
  return parts;
}

}  // namespace

std::unique_ptr<FleetWiring> FleetWiring::make(const Config& config, history::SqliteStore& store,
                                               history::SharedHistory* shared, history::SharedFeed* feed,
                                               alerting::AlertBook& book) {
  if (!config.fleet.on()) return nullptr;
  // Others, and this server itself, may have shared what the store does not have: see Fleet::find_own().
  if (shared != nullptr && store.loss().may_miss()) history::FeedState(store).doubt_all();
  return std::unique_ptr<FleetWiring>(new FleetWiring(config, store, shared, feed, book));
}

FleetWiring::FleetWiring(const Config& config, history::SqliteStore& store, history::SharedHistory* shared,
                         history::SharedFeed* feed, alerting::AlertBook& book)
    : store_(store),
      peers_(fleet::parse_instances(config.fleet.instances, config.fleet.self), config.fleet, channels(config),
             first_line(read_file("fleet.token_file", config.fleet.token_file))),
      fleet_(config.fleet, peers_, parts_of(config, store, shared, feed, book)) {}

void FleetWiring::serve(engine::HistoryApi& history, engine::AlertsApi& alerts) {
  serving_ = std::make_unique<Serving>(fleet_, history, alerts, store_);
}

FleetWiring::Serving::Serving(fleet::Fleet& fleet, engine::HistoryApi& local_history, engine::AlertsApi& local_alerts,
                              engine::HistoryStore& store)
    : locator(fleet, local_history),
      history(std::make_unique<fleet::FleetHistory>(locator, local_history)),
      alerts(std::make_unique<fleet::FleetAlerts>(locator, local_alerts, store)),
      own_history(fleet, locator.shared_only(), local_history),
      own_alerts(locator, local_alerts, store),
      history_service{
          .mark = fleet::mark_of,
          .identity = [&fleet] { return fleet.identity(); },
          .own = own_history,
          .holds = [&fleet](const std::string& run) { return fleet.holds(run); },
          .is_elsewhere = [this](const std::string& run) { return locator.server_of(run) != nullptr; },
          .tail_elsewhere = [this](const std::string& run, const auto& write, const auto& cancelled,
                                   engine::Status& end) { return fleet::tail_elsewhere(locator, run, write, cancelled, end); }},
      alerts_service{.is_passed_on = [](const grpc::ServerContextBase& context) { return !fleet::mark_of(context).empty(); },
                     .all = *alerts,
                     .own = own_alerts,
                     .watch_others =
                         [&fleet](const v1::WatchAlertsRequest& request) { return fleet::watch_peers(fleet.peers(), request); },
                     .is_elsewhere = [this](const std::string& run) { return locator.server_of(run) != nullptr; }} {}

}  // namespace scalewatch::app

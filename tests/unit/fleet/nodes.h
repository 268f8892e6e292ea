// Servers of a fleet within the test: real engines and gRPC between them, a shared history in memory, no disks.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/fleet/fleet.h"
#include "server/fleet/fleet_history.h"
#include "server/history/history_service.h"
#include "tests/unit/engine/fakes.h"
#include "tests/unit/fleet/fake_shared.h"

namespace scalewatch::fleet::testing {

inline int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(probe, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  close(probe);
  return ntohs(address.sin_port);
}

// What the engine has in memory.
class MemoryApi final : public engine::HistoryApi {
 public:
  using Status = engine::Status;
  explicit MemoryApi(engine::Engine& engine) : engine_(engine) {}

  Status get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) override {
    for (const auto& run : engine_.overviews()) {
      if (run->run().name() != request.run() && run->run().run_uid() != request.run()) continue;
      response = *run;
      return {};
    }
    return {Status::kNotFound, "unknown run"};
  }
  Status list_runs(const v1::ListRunsRequest& /*request*/, v1::ListRunsResponse& response) override {
    for (const auto& run : engine_.overviews()) *response.add_runs() = run->run();
    return {};
  }
  Status list_tensors(const v1::ListTensorsRequest& /*r*/, v1::ListTensorsResponse& /*a*/) override { return none(); }
  Status get_tensor_history(const v1::GetTensorHistoryRequest& /*r*/, v1::GetTensorHistoryResponse& /*a*/) override {
    return none();
  }
  Status get_attempt(const v1::GetAttemptRequest& /*r*/, v1::GetAttemptResponse& /*a*/) override { return none(); }
  Status top_tensors(const v1::TopTensorsRequest& /*r*/, v1::TopTensorsResponse& /*a*/) override { return none(); }
  Status get_scaler_history(const v1::GetScalerHistoryRequest& /*r*/, v1::GetScalerHistoryResponse& /*a*/) override {
    return none();
  }
  Status get_heat_map(const v1::GetHeatMapRequest& /*r*/, v1::GetHeatMapResponse& /*a*/) override { return none(); }

 private:
  static Status none() { return {Status::kNotFound, "not here"}; }
  engine::Engine& engine_;
};

// What a server does with runs that move, in order: "go", "import", "come", "end ID". The hooks are called as it does so.
struct Moves {
  void note(const std::string& what) {
    const std::lock_guard lock(mutex);
    all.push_back(what);
  }
  std::vector<std::string> seen() {
    const std::lock_guard lock(mutex);
    return all;
  }
  // Alerts that were told here and were left open when their run went.
  void leave_open(const std::vector<std::string>& ids) {
    const std::lock_guard lock(mutex);
    left = ids;
  }
  std::vector<std::string> left_open() {
    const std::lock_guard lock(mutex);
    return left;
  }
  void end(const std::vector<std::string>& ids) {
    for (const std::string& id : ids) note("end " + id);
    leave_open({});
  }
  std::mutex mutex;
  std::vector<std::string> all;
  std::vector<std::string> left;
  std::atomic<bool> has_room{true};
  std::function<void()> at_import{};
  std::function<void()> at_go{};
};

// A server's alerts, as another one asks for them.
class KnownAlerts final : public v1::Alerts::Service {
 public:
  grpc::Status GetAlert(grpc::ServerContext* /*c*/, const v1::GetAlertRequest* request, v1::GetAlertResponse* /*a*/) override {
    std::unique_lock lock(mutex);
    ++asked;
    came.notify_all();
    came.wait_for(lock, std::chrono::seconds(20), [&] { return asked >= together; });
    return ids.contains(request->id()) ? grpc::Status::OK : grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown alert");
  }
  std::mutex mutex;
  std::condition_variable came;
  std::set<std::string> ids;
  int asked = 0;
  int together = 0;  // so many questions are answered at once, none before all have come
};

// One server. Ends as one that was killed: whatever is not in the shared history stays in `store`.
class Node {
 public:
  Node(const std::string& name, const std::string& instances, FakeShared* shared, std::shared_ptr<MemoryStore> kept,
       bool required = true)
      : options_{.instances = instances,
                 .self = name,
                 .probe_every = std::chrono::milliseconds(50),
                 .down_after = std::chrono::milliseconds(400)},
        store(std::move(kept)),
        feed(shared ? std::make_unique<FakeFeed>(*shared, *store) : nullptr),
        peers_(parse_instances(instances, name), options_,
               [](const std::string& address) {
                 grpc::ChannelArguments arguments;
                 arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
                 arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
                 arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
                 return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
               }),
        fleet(options_, peers_,
              {.store = *store,
               .shared = shared,
               .feed = feed.get(),
               .required = required,
               .import =
                   [this, shared](const std::string& uid, std::uint64_t term) {
                     moves.note("import");
                     if (moves.at_import) moves.at_import();
                     const auto row = shared->rows.find_run(uid);
                     {
                       const std::lock_guard lock(store->mutex);
                       std::erase_if(store->runs, [&](const auto& each) { return row && each.second.name == row->name; });
                     }
                     feed->note_term(uid, term);
                     trust(*shared, uid);
                     return copy_run(uid, shared->rows, *store);
                   },
               .has_room = [this] { return moves.has_room.load(); },
               .last_place =
                   [this, shared](const std::string& uid) {
                     const std::scoped_lock lock(store->mutex, shared->mutex);
                     const auto& doubted = shared->doubted[store.get()];
                     return doubted.contains(uid) ? doubted.at(uid) : last_place_in(*store, uid);
                   },
               .doubted =
                   [this, shared] {
                     std::vector<std::string> uids;
                     const std::lock_guard lock(shared->mutex);
                     for (const auto& [uid, place] : shared->doubted[store.get()]) uids.push_back(uid);
                     return uids;
                   },
               .trust = [this, shared](const std::string& uid) { trust(*shared, uid); },
               .alerts_come = [this](const std::string& /*uid*/) { moves.note("come"); },
               .alerts_go =
                   [this](const std::string& /*uid*/) {
                     moves.note("go");
                     if (moves.at_go) moves.at_go();
                   },
               .left_open = [this](const std::string& /*uid*/) { return moves.left_open(); },
               .end_alerts = [this](const std::vector<std::string>& ids) { moves.end(ids); }}),
        engine(engine_options(), *store, outbox, clock),
        api(engine),
        locator(fleet, api),
        history(locator, api),
        hooks_{.mark = mark_of,
               .identity = [this] { return fleet.identity(); },
               .own = api,
               .holds = [this](const std::string& run) { return fleet.holds(run); },
               .is_elsewhere = [this](const std::string& run) { return locator.server_of(run) != nullptr; },
               .tail_elsewhere = [](const auto&, const auto&, const auto&, engine::Status&) { return false; }},
        service_(history::make_history_service(history, engine.run_feed(), *store, {.fleet = &hooks_})) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fleet.self().address, grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    builder.RegisterService(&alerts);
    server_ = builder.BuildAndStart();
    fleet.start(engine);
  }
  ~Node() {
    server_->Shutdown(std::chrono::system_clock::now());
    fleet.stop();
    engine.stop();
    server_->Wait();
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void say_leaving() { server_->GetHealthCheckService()->SetServingStatus(false); }
  const std::string& address() const { return fleet.self().address; }
  v1::RunSummary run(const std::string& name) {
    v1::GetRunRequest request;
    request.set_run(name);
    v1::GetRunResponse response;
    history.get_run(request, response);
    return response.run();
  }

 private:
  void trust(FakeShared& shared, const std::string& uid) {
    const std::lock_guard lock(shared.mutex);
    shared.doubted[store.get()].erase(uid);
  }
  engine::EngineOptions engine_options() {
    engine::EngineOptions options;
    options.limits = engine::default_limits();
    options.commit_delay = std::chrono::milliseconds(1);
    options.placement = &fleet;
    options.instance = options_.self;
    return options;
  }
  const Options options_;

 public:
  const std::shared_ptr<MemoryStore> store;
  const std::unique_ptr<FakeFeed> feed;
  Moves moves;
  KnownAlerts alerts;

 private:
  Peers peers_;

 public:
  Fleet fleet;
  engine::testing::MemoryOutbox outbox;
  engine::testing::ManualClock clock;
  engine::Engine engine;
  MemoryApi api;
  Locator locator;
  FleetHistory history;

 private:
  const history::ServiceFleet hooks_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace scalewatch::fleet::testing

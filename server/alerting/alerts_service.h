// The gRPC service scalewatch.v1.Alerts: a thin adapter of StoredAlerts and the engine's feed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/alerts_api.h"
#include "server/auth/gate.h"
#include "server/auth/guarded_alerts.h"
#include "server/engine/feed.h"

namespace grpc {
class ServerContextBase;
class Service;
}  // namespace grpc

namespace scalewatch::alerting {

// What other servers' WatchAlerts tell.
class OtherAlerts {
 public:
  virtual ~OtherAlerts() = default;
  // What came since the last call; never blocks.
  virtual std::vector<v1::WatchAlertsResponse> take() = 0;
};

// Where several servers share the runs (server/fleet): clients get the answers of all, servers those of this one.
struct AlertsFleet {
  std::function<bool(const grpc::ServerContextBase&)> is_passed_on;  // the call comes from another server
  engine::AlertsApi& all;
  engine::AlertsApi& own;  // of this server alone
  std::function<std::unique_ptr<OtherAlerts>(const v1::WatchAlertsRequest&)> watch_others;
  std::function<bool(const std::string& run)> is_elsewhere;
};

struct AlertsServiceOptions {
  std::size_t max_watchers = 64;     // each holds a thread of the server; more get RESOURCE_EXHAUSTED
  std::size_t watcher_queue = 1024;  // changes that a slow watcher may lag behind before it loses the oldest
  // What ReloadConfiguration does, for a `who` that is well-formed; blocks. Empty: FAILED_PRECONDITION.
  std::function<engine::Status(const v1::ReloadConfigurationRequest&, v1::ReloadConfigurationResponse&)> reload{};
  auth::Gate* gate = nullptr;          // lets callers in, and says what each may; null: everybody may everything
  auth::NameOfRun name_of{};           // needed with a gate
  const AlertsFleet* fleet = nullptr;  // outlives the service; null: this server is alone
};

// Register it with a grpc::ServerBuilder. `alerts` and `feed` must outlive it. Watches end within 0.2 s of their cancellation,
// of the server's shutdown, and when the feed closes.
std::unique_ptr<grpc::Service> make_alerts_service(StoredAlerts& alerts, engine::Feed<v1::Alert>& feed,
                                                   AlertsServiceOptions options = {});

}  // namespace scalewatch::alerting

// The gRPC service scalewatch.v1.Alerts: a thin adapter of StoredAlerts and the engine's feed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/alerts_api.h"
#include "server/engine/feed.h"

namespace grpc {
class Service;
}

namespace scalewatch::alerting {

struct AlertsServiceOptions {
  std::size_t max_watchers = 64;     // each holds a thread of the server; more get RESOURCE_EXHAUSTED
  std::size_t watcher_queue = 1024;  // changes that a slow watcher may lag behind before it loses the oldest
  // What ReloadConfiguration does, for a `who` that is well-formed; blocks. Empty: FAILED_PRECONDITION.
  std::function<engine::Status(const v1::ReloadConfigurationRequest&, v1::ReloadConfigurationResponse&)> reload{};
};

// Register it with a grpc::ServerBuilder. `alerts` and `feed` must outlive it. Watches end within 0.2 s of their cancellation,
// of the server's shutdown, and when the feed closes.
std::unique_ptr<grpc::Service> make_alerts_service(StoredAlerts& alerts, engine::Feed<v1::Alert>& feed,
                                                   AlertsServiceOptions options = {});

}  // namespace scalewatch::alerting

// The History service: a thin gRPC adapter of engine::HistoryApi and of the live feed.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/auth/gate.h"
#include "server/engine/engine.h"
#include "server/engine/ports/read_api.h"

namespace grpc {
class ServerContextBase;
}

namespace scalewatch::history {

// Where several servers share the runs (server/fleet): clients get the answers of all, servers those of this one.
struct ServiceFleet {
  // Of a call: "" a client's own, "held" one that wants only what is in memory here, else one that another server passes on.
  std::function<std::string(const grpc::ServerContextBase&)> mark;
  // Trailing metadata of what this server answers others: who it is.
  std::function<std::vector<std::pair<std::string, std::string>>()> identity;
  engine::HistoryApi& own;  // of this server alone, as the others ask for it
  std::function<bool(const std::string& run)> holds;
  // Whether another server has it.
  std::function<bool(const std::string& run)> is_elsewhere;
  // Pipes a tail from there; false: the run is not elsewhere.
  std::function<bool(const std::string& run, const std::function<bool(const v1::TailRunResponse&)>& write,
                     const std::function<bool()>& cancelled, engine::Status& end)>
      tail_elsewhere;
};

struct ServiceOptions {
  std::size_t max_tails = 64;           // live readers at once, each holds one of gRPC's threads; more get RESOURCE_EXHAUSTED
  std::size_t tail_capacity = 4096;     // events that wait for a slow reader; what it misses is counted over all runs
  auth::Gate* gate = nullptr;           // lets callers in, and shows each what it may see; null: everybody sees everything
  const ServiceFleet* fleet = nullptr;  // outlives the service; null: this server is alone
};

// All of what it refers to must outlive the server that it is registered with. Tails end when the feed closes.
std::unique_ptr<grpc::Service> make_history_service(engine::HistoryApi& api, engine::Feed<engine::RunEvent>& feed,
                                                    engine::HistoryStore& store, const ServiceOptions& options = {});

}  // namespace scalewatch::history

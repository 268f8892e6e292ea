// The History service: a thin gRPC adapter of engine::HistoryApi and of the live feed.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <cstddef>
#include <memory>

#include "server/engine/engine.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::history {

struct ServiceOptions {
  std::size_t max_tails = 64;        // live readers at once, each holds one of gRPC's threads; more get RESOURCE_EXHAUSTED
  std::size_t tail_capacity = 4096;  // events that wait for a slow reader; what it misses is counted over all runs
};

// All of what it refers to must outlive the server that it is registered with. Tails end when the feed closes.
std::unique_ptr<grpc::Service> make_history_service(engine::HistoryApi& api, engine::Feed<engine::RunEvent>& feed,
                                                    engine::HistoryStore& store, const ServiceOptions& options = {});

}  // namespace scalewatch::history

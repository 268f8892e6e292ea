// Tells of every call of our own services that ended, but for ingest's streams, which have counters of their own.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace scalewatch::app {

// `method` such as "History/ListRuns"; `code`, the status code's name; `seconds` that it took, absent for streams. Any thread.
using CallEnded = std::function<void(const std::string& method, const std::string& code, std::optional<double> seconds)>;

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> meter_calls(CallEnded ended);

}  // namespace scalewatch::app

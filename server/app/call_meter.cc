#include "server/app/call_meter.h"

#include <grpcpp/support/status.h>

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

namespace scalewatch::app {
namespace {

namespace ge = grpc::experimental;

// By grpc::StatusCode.
constexpr std::array<const char*, 17> kCodes = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

constexpr std::string_view kOurs = "/scalewatch.v1.";
constexpr std::string_view kIngest = "/scalewatch.v1.Ingest/";

class Meter final : public ge::Interceptor {
 public:
  Meter(const CallEnded& ended, std::string method, bool stream) : ended_(ended), method_(std::move(method)), stream_(stream) {}

  void Intercept(ge::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(ge::InterceptionHookPoints::PRE_SEND_STATUS)) {
      const auto code = static_cast<std::size_t>(methods->GetSendStatus().error_code());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
      ended_(method_, code < kCodes.size() ? kCodes.at(code) : "UNKNOWN",
             stream_ ? std::nullopt : std::optional<double>(took.count()));
    }
    methods->Proceed();
  }

 private:
  const CallEnded& ended_;  // the factory's, which the server owns
  const std::string method_;
  const bool stream_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

class Factory final : public ge::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(CallEnded ended) : ended_(std::move(ended)) {}

  ge::Interceptor* CreateServerInterceptor(ge::ServerRpcInfo* info) override {
    const std::string_view method = info->method();
    if (!method.starts_with(kOurs) || method.starts_with(kIngest)) return nullptr;
    return new Meter(ended_, std::string(method.substr(kOurs.size())), info->type() != ge::ServerRpcInfo::Type::UNARY);
  }

 private:
  const CallEnded ended_;
};

}  // namespace

std::vector<std::unique_ptr<ge::ServerInterceptorFactoryInterface>> meter_calls(CallEnded ended) {
  std::vector<std::unique_ptr<ge::ServerInterceptorFactoryInterface>> all;
  all.push_back(std::make_unique<Factory>(std::move(ended)));
  return all;
}

}  // namespace scalewatch::app

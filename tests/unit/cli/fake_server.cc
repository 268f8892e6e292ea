#include "tests/unit/cli/fake_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "scalewatch/v1/history.grpc.pb.h"

namespace scalewatch::cli {

namespace {

using grpc::ServerContext;
using grpc::Status;

class FakeHistory final : public v1::History::Service {
 public:
  FakeHistory(FakeServer& owner, FakeData& data) : owner_(owner), data_(data) {}

  Status ListRuns(ServerContext*, const v1::ListRunsRequest* request, v1::ListRunsResponse* response) override {
    owner_.list_runs_request = *request;
    const int from = request->page_token().empty() ? 0 : std::stoi(request->page_token());
    const int asked = request->page_size() == 0 ? 100 : request->page_size();
    const int to = std::min(data_.runs.runs_size(), from + std::min(asked, data_.page_size));
    for (int i = from; i < to; ++i) *response->add_runs() = data_.runs.runs(i);
    if (to < data_.runs.runs_size()) response->set_next_page_token(std::to_string(to));
    return status();
  }
  Status GetRun(ServerContext*, const v1::GetRunRequest* request, v1::GetRunResponse* response) override {
    if (data_.baseline.run().name() == request->run() && !request->run().empty()) {
      *response = data_.baseline;
      return status();
    }
    if (data_.fail_code == 0 && request->run() != data_.run.run().name() && request->run() != data_.run.run().run_uid()) {
      return {grpc::StatusCode::NOT_FOUND, "no run \"" + request->run() + "\"; nearest: " + data_.run.run().name()};
    }
    *response = data_.run;
    return status();
  }
  Status ListTensors(ServerContext*, const v1::ListTensorsRequest*, v1::ListTensorsResponse* response) override {
    *response = data_.tensors;
    return status();
  }
  Status GetTensorHistory(ServerContext*, const v1::GetTensorHistoryRequest* request,
                          v1::GetTensorHistoryResponse* response) override {
    owner_.tensor_history_request = *request;
    // A read limit after two points, as a busy server has.
    *response->mutable_info() = data_.history.info();
    for (const auto& point : data_.history.points()) {
      if (point.first_attempt() < request->range().first()) continue;
      if (response->points_size() == 2) {
        response->set_truncated(true);
        response->set_next_attempt(point.first_attempt());
        break;
      }
      *response->add_points() = point;
    }
    return status();
  }
  Status GetAttempt(ServerContext*, const v1::GetAttemptRequest* request, v1::GetAttemptResponse* response) override {
    const bool base = request->run() == data_.baseline.run().run_uid() && !request->run().empty();
    const auto& attempts = base ? data_.baseline_attempts : data_.attempts;
    const auto found = std::find_if(attempts.begin(), attempts.end(), [&](const v1::GetAttemptResponse& one) {
      const auto number = one.attempt().attempt();
      return request->or_next() ? number >= request->attempt() : number == request->attempt();
    });
    const bool newest = request->attempt() == 0 && !attempts.empty();
    if (found == attempts.end() && !newest) return {grpc::StatusCode::NOT_FOUND, "no report for that attempt"};
    const auto& one = newest ? attempts.back() : *found;
    *response->mutable_attempt() = one.attempt();
    if (request->summary_only()) return status();
    const int from = request->page_token().empty() ? 0 : std::stoi(request->page_token());
    const int to = std::min(one.tensors_size(), from + data_.page_size);
    for (int i = from; i < to; ++i) *response->add_tensors() = one.tensors(i);
    if (to < one.tensors_size()) response->set_next_page_token(std::to_string(to));
    return status();
  }
  Status TopTensors(ServerContext*, const v1::TopTensorsRequest* request, v1::TopTensorsResponse* response) override {
    owner_.top_request = *request;
    *response = data_.top;
    return status();
  }
  Status GetScalerHistory(ServerContext*, const v1::GetScalerHistoryRequest* request,
                          v1::GetScalerHistoryResponse* response) override {
    owner_.scaler_request = *request;
    *response = data_.scaler;
    if (!data_.scaler_not_now.empty()) return {grpc::StatusCode::UNAVAILABLE, data_.scaler_not_now};
    return status();
  }
  Status TailRun(ServerContext* context, const v1::TailRunRequest*, grpc::ServerWriter<v1::TailRunResponse>* writer) override {
    for (const auto& event : data_.tail) writer->Write(event);
    while (data_.hold_streams && !context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return status();
  }

 private:
  Status status() {
    ++owner_.calls;
    return data_.fail_code == 0 ? Status::OK : Status(static_cast<grpc::StatusCode>(data_.fail_code), data_.fail_message);
  }
  FakeServer& owner_;
  FakeData& data_;
};

class FakeAlerts final : public v1::Alerts::Service {
 public:
  FakeAlerts(FakeServer& owner, FakeData& data) : owner_(owner), data_(data) {}

  Status ListAlerts(ServerContext*, const v1::ListAlertsRequest* request, v1::ListAlertsResponse* response) override {
    owner_.list_alerts_request = *request;
    *response = data_.alerts;
    return Status::OK;
  }
  Status WatchAlerts(ServerContext*, const v1::WatchAlertsRequest*,
                     grpc::ServerWriter<v1::WatchAlertsResponse>* writer) override {
    v1::WatchAlertsResponse event;
    *event.mutable_alert() = data_.alerts.alerts(0);
    writer->Write(event);
    event.set_dropped(7);
    writer->Write(event);
    return Status::OK;
  }
  Status AcknowledgeAlert(ServerContext*, const v1::AcknowledgeAlertRequest* request,
                          v1::AcknowledgeAlertResponse* response) override {
    owner_.acknowledge_request = *request;
    auto& alert = *response->mutable_alert();
    alert = data_.alerts.alerts(0);
    if (request->id() != alert.id()) return {grpc::StatusCode::NOT_FOUND, "no alert \"" + request->id() + "\""};
    alert.set_state(v1::ALERT_STATE_ACKNOWLEDGED);
    alert.set_acknowledged_by(request->who());
    alert.set_comment(request->comment());
    return Status::OK;
  }

 private:
  FakeServer& owner_;
  FakeData& data_;
};

}  // namespace

struct FakeServer::Impl {
  Impl(FakeServer& owner, FakeData given) : data(std::move(given)), history(owner, data), alerts(owner, data) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&history);
    builder.RegisterService(&alerts);
    server = builder.BuildAndStart();
  }
  FakeData data;
  FakeHistory history;
  FakeAlerts alerts;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

FakeServer::FakeServer(FakeData data) : impl_(std::make_unique<Impl>(*this, std::move(data))) {}
FakeServer::~FakeServer() {
  impl_->server->Shutdown(std::chrono::system_clock::now());
}
std::string FakeServer::address() const {
  return "127.0.0.1:" + std::to_string(impl_->port);
}
FakeData& FakeServer::data() {
  return impl_->data;
}

}  // namespace scalewatch::cli

#include "server/history/history_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <string>

#include "scalewatch/v1/history.grpc.pb.h"

namespace scalewatch::history {

namespace {

constexpr std::chrono::milliseconds kTailWait{200};  // how late a cancelled tail is noticed
constexpr int kQuietWaits = 5;                       // in a row, after which a tail asks whether its run is over

grpc::Status to_grpc(const engine::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code), status.message};
}

// Counts itself among the live readers while it lives.
class Seat {
 public:
  Seat(std::atomic<std::size_t>& taken, std::size_t limit) : taken_(taken), granted_(taken.fetch_add(1) < limit) {}
  ~Seat() { taken_.fetch_sub(1); }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  [[nodiscard]] bool granted() const { return granted_; }

 private:
  std::atomic<std::size_t>& taken_;
  const bool granted_;
};

class Service final : public v1::History::Service {
 public:
  Service(engine::HistoryApi& api, engine::Feed<engine::RunEvent>& feed, engine::HistoryStore& store,
          const ServiceOptions& options)
      : api_(api), feed_(feed), store_(store), options_(options) {}

  grpc::Status ListRuns(grpc::ServerContext*, const v1::ListRunsRequest* request, v1::ListRunsResponse* response) override {
    return to_grpc(api_.list_runs(*request, *response));
  }
  grpc::Status GetRun(grpc::ServerContext*, const v1::GetRunRequest* request, v1::GetRunResponse* response) override {
    return to_grpc(api_.get_run(*request, *response));
  }
  grpc::Status ListTensors(grpc::ServerContext*, const v1::ListTensorsRequest* request,
                           v1::ListTensorsResponse* response) override {
    return to_grpc(api_.list_tensors(*request, *response));
  }
  grpc::Status GetTensorHistory(grpc::ServerContext*, const v1::GetTensorHistoryRequest* request,
                                v1::GetTensorHistoryResponse* response) override {
    return to_grpc(api_.get_tensor_history(*request, *response));
  }
  grpc::Status GetAttempt(grpc::ServerContext*, const v1::GetAttemptRequest* request,
                          v1::GetAttemptResponse* response) override {
    return to_grpc(api_.get_attempt(*request, *response));
  }
  grpc::Status TopTensors(grpc::ServerContext*, const v1::TopTensorsRequest* request,
                          v1::TopTensorsResponse* response) override {
    return to_grpc(api_.top_tensors(*request, *response));
  }
  grpc::Status GetScalerHistory(grpc::ServerContext*, const v1::GetScalerHistoryRequest* request,
                                v1::GetScalerHistoryResponse* response) override {
    return to_grpc(api_.get_scaler_history(*request, *response));
  }
  grpc::Status GetHeatMap(grpc::ServerContext*, const v1::GetHeatMapRequest* request,
                          v1::GetHeatMapResponse* response) override {
    return to_grpc(api_.get_heat_map(*request, *response));
  }
  grpc::Status TailRun(grpc::ServerContext* context, const v1::TailRunRequest* request,
                       grpc::ServerWriter<v1::TailRunResponse>* writer) override;

 private:
  // The run's uid, or the answer of get_run, which knows the nearest names.
  grpc::Status resolve(const std::string& run, std::string& uid);
  bool finished(const std::string& uid);

  engine::HistoryApi& api_;
  engine::Feed<engine::RunEvent>& feed_;
  engine::HistoryStore& store_;
  const ServiceOptions options_;
  std::atomic<std::size_t> tails_{0};
};

grpc::Status Service::resolve(const std::string& run, std::string& uid) {
  try {
    if (const auto row = store_.find_run(run)) {
      uid = row->run_uid;
      return grpc::Status::OK;
    }
  } catch (const engine::StoreError& error) {
    return {error.retryable ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::INTERNAL, error.what()};
  }
  v1::GetRunRequest request;
  request.set_run(run);
  v1::GetRunResponse response;
  const auto status = api_.get_run(request, response);
  uid = response.run().run_uid();  // it may have come meanwhile
  return to_grpc(status);
}

bool Service::finished(const std::string& uid) {
  try {
    const auto row = store_.find_run(uid);
    return row && row->status == v1::RUN_STATUS_FINISHED;
  } catch (const engine::StoreError&) {
    return false;  // asked again after the next quiet moment
  }
}

grpc::Status Service::TailRun(grpc::ServerContext* context, const v1::TailRunRequest* request,
                              grpc::ServerWriter<v1::TailRunResponse>* writer) {
  const Seat seat(tails_, options_.max_tails);
  if (!seat.granted()) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            "all " + std::to_string(options_.max_tails) + " live readers are taken; close one or read the history instead"};
  }
  // Before the look-up, so that nothing falls between the two.
  const auto subscription = feed_.subscribe(options_.tail_capacity);
  std::string uid;
  if (auto status = resolve(request->run(), uid); !status.ok()) return status;
  writer->SendInitialMetadata();
  // Events come after their commit: a run that is finished is told of once nothing came for a while.
  int quiet = 0;
  while (!context->IsCancelled()) {
    const auto batch = subscription->wait(kTailWait);
    quiet = batch.events.empty() && batch.dropped == 0 ? quiet + 1 : 0;
    if (quiet % kQuietWaits == kQuietWaits - 1 && !batch.closed && finished(uid)) return grpc::Status::OK;
    if (batch.dropped > 0) {
      v1::TailRunResponse message;
      message.set_dropped(batch.dropped);
      if (!writer->Write(message)) return grpc::Status::CANCELLED;
    }
    for (const auto& event : batch.events) {
      if (event->run_uid == uid && !writer->Write(event->event)) return grpc::Status::CANCELLED;
    }
    if (batch.closed) return {grpc::StatusCode::UNAVAILABLE, "the server is shutting down"};
  }
  return grpc::Status::CANCELLED;
}

}  // namespace

std::unique_ptr<grpc::Service> make_history_service(engine::HistoryApi& api, engine::Feed<engine::RunEvent>& feed,
                                                    engine::HistoryStore& store, const ServiceOptions& options) {
  return std::make_unique<Service>(api, feed, store, options);
}

}  // namespace scalewatch::history

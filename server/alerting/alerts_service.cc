#include "server/alerting/alerts_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "server/alerting/alert_text.h"

namespace scalewatch::alerting {

namespace {

constexpr std::chrono::milliseconds kCancelCheck{200};

grpc::Status to_grpc(const engine::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code), status.message};
}

class AlertsService final : public v1::Alerts::Service {
 public:
  AlertsService(StoredAlerts& alerts, engine::Feed<v1::Alert>& feed, AlertsServiceOptions options)
      : alerts_(alerts), feed_(feed), options_(std::move(options)) {}

  grpc::Status ListAlerts(grpc::ServerContext*, const v1::ListAlertsRequest* request,
                          v1::ListAlertsResponse* response) override {
    return to_grpc(alerts_.list_alerts(*request, *response));
  }

  grpc::Status AcknowledgeAlert(grpc::ServerContext*, const v1::AcknowledgeAlertRequest* request,
                                v1::AcknowledgeAlertResponse* response) override {
    return to_grpc(alerts_.acknowledge(*request, *response));
  }

  grpc::Status GetAlert(grpc::ServerContext*, const v1::GetAlertRequest* request, v1::GetAlertResponse* response) override {
    return to_grpc(alerts_.get_alert(*request, *response));
  }

  grpc::Status CreateSilence(grpc::ServerContext*, const v1::CreateSilenceRequest* request,
                             v1::CreateSilenceResponse* response) override {
    return to_grpc(alerts_.create_silence(*request, *response));
  }

  grpc::Status ListSilences(grpc::ServerContext*, const v1::ListSilencesRequest* request,
                            v1::ListSilencesResponse* response) override {
    return to_grpc(alerts_.list_silences(*request, *response));
  }

  grpc::Status EndSilence(grpc::ServerContext*, const v1::EndSilenceRequest* request,
                          v1::EndSilenceResponse* response) override {
    return to_grpc(alerts_.end_silence(*request, *response));
  }

  grpc::Status TestSinks(grpc::ServerContext*, const v1::TestSinksRequest* request, v1::TestSinksResponse* response) override {
    return to_grpc(alerts_.test_sinks(*request, *response));
  }

  grpc::Status ListDeadLetters(grpc::ServerContext*, const v1::ListDeadLettersRequest* request,
                               v1::ListDeadLettersResponse* response) override {
    return to_grpc(alerts_.list_dead_letters(*request, *response));
  }

  grpc::Status ReplayDeadLetters(grpc::ServerContext*, const v1::ReplayDeadLettersRequest* request,
                                 v1::ReplayDeadLettersResponse* response) override {
    return to_grpc(alerts_.replay_dead_letters(*request, *response));
  }

  grpc::Status ReloadConfiguration(grpc::ServerContext*, const v1::ReloadConfigurationRequest* request,
                                   v1::ReloadConfigurationResponse* response) override {
    if (!options_.reload) return {grpc::StatusCode::FAILED_PRECONDITION, "this server has no configuration to read again"};
    if (std::string fault = who_fault(request->who()); !fault.empty()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, std::move(fault)};
    }
    return to_grpc(options_.reload(*request, *response));
  }

  grpc::Status WatchAlerts(grpc::ServerContext* context, const v1::WatchAlertsRequest* request,
                           grpc::ServerWriter<v1::WatchAlertsResponse>* writer) override {
    const Seat seat(watchers_);
    if (seat.taken > options_.max_watchers) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED,
              fmt::format("{} watchers are connected, which is the limit; try later or list alerts", options_.max_watchers)};
    }
    return watch(*context, *request, *writer);
  }

 private:
  struct Seat {
    explicit Seat(std::atomic<std::size_t>& count) : counter(count), taken(++count) {}
    ~Seat() { --counter; }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    std::atomic<std::size_t>& counter;
    const std::size_t taken;
  };

  grpc::Status watch(grpc::ServerContext& context, const v1::WatchAlertsRequest& request,
                     grpc::ServerWriter<v1::WatchAlertsResponse>& writer) {
    engine::AlertReader::Filter filter;
    if (engine::Status status = alerts_.make_filter(request.run(), request.min_severity(), filter); !status.ok()) {
      return to_grpc(status);
    }
    // Before the list is read, so that no change falls between; what is in both is told twice.
    const auto subscription = feed_.subscribe(options_.watcher_queue);
    v1::WatchAlertsResponse response;
    bool connected = true;
    const engine::Status listed = alerts_.visit_open(filter, [&](const v1::Alert& alert) {
      *response.mutable_alert() = alert;
      connected = writer.Write(response);
      return connected;
    });
    if (!listed.ok()) return to_grpc(listed);
    while (connected && !context.IsCancelled()) {
      const auto batch = subscription->wait(kCancelCheck);
      if (batch.dropped > 0) {
        response.set_dropped(batch.dropped);
        connected = writer.Write(response);
      }
      for (const auto& alert : batch.events) {
        if (!connected) break;
        if (!matches(*alert, filter)) continue;
        *response.mutable_alert() = *alert;
        connected = writer.Write(response);
      }
      if (batch.closed) break;
    }
    return grpc::Status::OK;
  }

  static bool matches(const v1::Alert& alert, const engine::AlertReader::Filter& filter) {
    return alert.finding().severity() >= filter.min_severity && (!filter.run_uid || alert.run_uid() == *filter.run_uid);
  }

  StoredAlerts& alerts_;
  engine::Feed<v1::Alert>& feed_;
  const AlertsServiceOptions options_;
  std::atomic<std::size_t> watchers_{0};
};

}  // namespace

std::unique_ptr<grpc::Service> make_alerts_service(StoredAlerts& alerts, engine::Feed<v1::Alert>& feed,
                                                   AlertsServiceOptions options) {
  return std::make_unique<AlertsService>(alerts, feed, options);
}

}  // namespace scalewatch::alerting

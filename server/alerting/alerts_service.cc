#include "server/alerting/alerts_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "server/alerting/alert_text.h"
#include "server/auth/grpc_call.h"

namespace scalewatch::alerting {

namespace {

constexpr std::chrono::milliseconds kCancelCheck{200};

class AlertsService final : public v1::Alerts::Service {
 public:
  AlertsService(StoredAlerts& alerts, engine::Feed<v1::Alert>& feed, AlertsServiceOptions options)
      : alerts_(alerts), feed_(feed), options_(std::move(options)) {}

  grpc::Status ListAlerts(grpc::ServerContext* context, const v1::ListAlertsRequest* request,
                          v1::ListAlertsResponse* response) override {
    return answer(context, &engine::AlertsApi::list_alerts, *request, *response);
  }

  grpc::Status AcknowledgeAlert(grpc::ServerContext* context, const v1::AcknowledgeAlertRequest* request,
                                v1::AcknowledgeAlertResponse* response) override {
    return answer(context, &engine::AlertsApi::acknowledge, *request, *response);
  }

  grpc::Status GetAlert(grpc::ServerContext* context, const v1::GetAlertRequest* request,
                        v1::GetAlertResponse* response) override {
    return answer(context, &engine::AlertsApi::get_alert, *request, *response);
  }

  grpc::Status CreateSilence(grpc::ServerContext* context, const v1::CreateSilenceRequest* request,
                             v1::CreateSilenceResponse* response) override {
    return answer(context, &engine::AlertsApi::create_silence, *request, *response);
  }

  grpc::Status ListSilences(grpc::ServerContext* context, const v1::ListSilencesRequest* request,
                            v1::ListSilencesResponse* response) override {
    return answer(context, &engine::AlertsApi::list_silences, *request, *response);
  }

  grpc::Status EndSilence(grpc::ServerContext* context, const v1::EndSilenceRequest* request,
                          v1::EndSilenceResponse* response) override {
    return answer(context, &engine::AlertsApi::end_silence, *request, *response);
  }

  grpc::Status TestSinks(grpc::ServerContext* context, const v1::TestSinksRequest* request,
                         v1::TestSinksResponse* response) override {
    return answer(context, &engine::AlertsApi::test_sinks, *request, *response);
  }

  grpc::Status ListDeadLetters(grpc::ServerContext* context, const v1::ListDeadLettersRequest* request,
                               v1::ListDeadLettersResponse* response) override {
    return answer(context, &engine::AlertsApi::list_dead_letters, *request, *response);
  }

  grpc::Status ReplayDeadLetters(grpc::ServerContext* context, const v1::ReplayDeadLettersRequest* request,
                                 v1::ReplayDeadLettersResponse* response) override {
    return answer(context, &engine::AlertsApi::replay_dead_letters, *request, *response);
  }

  grpc::Status ReloadConfiguration(grpc::ServerContext* context, const v1::ReloadConfigurationRequest* request,
                                   v1::ReloadConfigurationResponse* response) override {
    return auth::answer(options_.gate, *context, [&](const auth::Caller& caller) {
      const engine::Status status = reload(caller, *request, *response);
      if (options_.gate != nullptr) options_.gate->audit(caller, "ReloadConfiguration", {}, request->who(), status);
      return auth::to_grpc(status);
    });
  }

  grpc::Status WatchAlerts(grpc::ServerContext* context, const v1::WatchAlertsRequest* request,
                           grpc::ServerWriter<v1::WatchAlertsResponse>* writer) override {
    const Seat seat(watchers_);
    if (seat.taken > options_.max_watchers) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED,
              fmt::format("{} watchers are connected, which is the limit; try later or list alerts", options_.max_watchers)};
    }
    return auth::answer(options_.gate, *context,
                        [&](const auth::Caller& caller) { return watch(*context, caller, *request, *writer); });
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

  template <class Request, class Response>
  grpc::Status answer(grpc::ServerContext* context, engine::Status (engine::AlertsApi::*function)(const Request&, Response&),
                      const Request& request, Response& response) {
    engine::AlertsApi& api = api_of(*context);
    if (options_.gate == nullptr) return auth::to_grpc((api.*function)(request, response), *context);
    return auth::answer(options_.gate, *context, [&](const auth::Caller& caller) {
      auth::GuardedAlerts guarded(api, *options_.gate, caller, options_.name_of);
      return auth::to_grpc((guarded.*function)(request, response), *context);
    });
  }

  [[nodiscard]] bool is_passed_on(const grpc::ServerContext& context) const {
    return options_.fleet != nullptr && options_.fleet->is_passed_on(context);
  }
  engine::AlertsApi& api_of(const grpc::ServerContext& context) {
    if (options_.fleet == nullptr) return alerts_;
    return is_passed_on(context) ? options_.fleet->own : options_.fleet->all;
  }

  engine::Status reload(const auth::Caller& caller, const v1::ReloadConfigurationRequest& request,
                        v1::ReloadConfigurationResponse& response) {
    if (engine::Status status = auth::check_operate_all(caller); !status.ok()) return status;
    if (!options_.reload) return {engine::Status::kFailedPrecondition, "this server has no configuration to read again"};
    if (std::string fault = who_fault(request.who()); !fault.empty())
      return {engine::Status::kInvalidArgument, std::move(fault)};
    return options_.reload(request, response);
  }

  grpc::Status watch(grpc::ServerContext& context, const auth::Caller& caller, const v1::WatchAlertsRequest& request,
                     grpc::ServerWriter<v1::WatchAlertsResponse>& writer) {
    if (auto status = auth::check_watch(caller, options_.name_of, request.run()); !status.ok()) return auth::to_grpc(status);
    auth::SlowReader reader(options_.gate, context);
    const bool others = options_.fleet != nullptr && !is_passed_on(context);
    engine::AlertReader::Filter filter;
    engine::Status filtered = alerts_.make_filter(request.run(), request.min_severity(), filter);
    if (others && filtered.code == engine::Status::kNotFound && options_.fleet->is_elsewhere(request.run())) {
      filter.run_uid = "";  // of no run here
      filtered = {};
    }
    if (!filtered.ok()) return auth::to_grpc(filtered);
    const auto elsewhere = others ? options_.fleet->watch_others(request) : nullptr;
    // Before the list is read, so that no change falls between; what is in both is told twice.
    const auto subscription = feed_.subscribe(options_.watcher_queue);
    v1::WatchAlertsResponse response;
    bool connected = true;
    const auto tell = [&](const v1::Alert& alert) {
      if (!caller.may_read(alert.run())) return;
      *response.mutable_alert() = alert;
      if (!caller.may_read_all()) auth::hide_others(caller, *response.mutable_alert());
      connected = reader.write(writer, response);
    };
    const engine::Status listed = alerts_.visit_open(filter, [&](const v1::Alert& alert) {
      tell(alert);
      return connected;
    });
    if (!listed.ok()) return auth::to_grpc(listed);
    while (connected && !context.IsCancelled()) {
      if (!caller.known()) return auth::to_grpc(auth::lost(caller));
      const auto batch = subscription->wait(kCancelCheck);
      if (batch.dropped > 0) {
        response.set_dropped(batch.dropped);
        connected = reader.write(writer, response);
      }
      for (const auto& alert : batch.events) {
        if (!connected) break;
        if (matches(*alert, filter)) tell(*alert);
      }
      for (const v1::WatchAlertsResponse& other : elsewhere ? elsewhere->take() : std::vector<v1::WatchAlertsResponse>()) {
        if (!connected) break;
        if (other.has_alert()) tell(other.alert());
        if (other.has_dropped()) connected = reader.write(writer, other);
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

#include "server/history/history_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "scalewatch/v1/history.grpc.pb.h"
#include "server/auth/grpc_call.h"
#include "server/auth/guarded_history.h"

namespace scalewatch::history {

namespace {

constexpr std::chrono::milliseconds kTailWait{200};  // how late a cancelled tail is noticed
constexpr int kQuietWaits = 5;                       // in a row, after which a tail asks whether its run is over
constexpr int kMoves = 10;                           // of a run, while its tail brought nothing
constexpr std::chrono::milliseconds kMoving{500};    // until a run that is not where it was is looked for again
constexpr const char* kHeld = "held";
constexpr const char* kMoved = "the run goes on at another server";

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

// The methods of v1::History::Service, registered as it does it, but for the answers of two: those are bytes.
class Service final : public grpc::Service {
 public:
  Service(engine::HistoryApi& api, engine::Feed<engine::RunEvent>& feed, engine::HistoryStore& store,
          const ServiceOptions& options)
      : api_(api), feed_(feed), store_(store), options_(options) {
    using Api = engine::HistoryApi;
    add_encoded("/scalewatch.v1.History/ListRuns", &Api::encode_runs);
    add("/scalewatch.v1.History/GetRun", &Api::get_run);
    add("/scalewatch.v1.History/ListTensors", &Api::list_tensors);
    add("/scalewatch.v1.History/GetTensorHistory", &Api::get_tensor_history);
    add_encoded("/scalewatch.v1.History/GetAttempt", &Api::encode_attempt);
    add("/scalewatch.v1.History/TopTensors", &Api::top_tensors);
    add("/scalewatch.v1.History/GetScalerHistory", &Api::get_scaler_history);
    add("/scalewatch.v1.History/GetHeatMap", &Api::get_heat_map);
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/scalewatch.v1.History/TailRun", grpc::internal::RpcMethod::SERVER_STREAMING,
        new grpc::internal::ServerStreamingHandler<Service, v1::TailRunRequest, v1::TailRunResponse>(
            [](Service* service, grpc::ServerContext* context, const v1::TailRunRequest* request,
               grpc::ServerWriter<v1::TailRunResponse>* writer) { return service->TailRun(context, request, writer); },
            this)));
  }

 private:
  template <class Request, class Response>
  using Function = engine::Status (engine::HistoryApi::*)(const Request&, Response&);

  // `name` must live as long as the service.
  template <class Request, class Response>
  void add(const char* name, Function<Request, Response> function) {
    using grpc::protobuf::MessageLite;
    AddMethod(new grpc::internal::RpcServiceMethod(
        name, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<Service, Request, Response, MessageLite, MessageLite>(
            [function](Service* service, grpc::ServerContext* context, const Request* request, Response* response) {
              return service->answer(context, function, *request, *response);
            },
            this)));
  }
  template <class Request>
  void add_encoded(const char* name, Function<Request, std::string> function) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        name, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<Service, Request, grpc::ByteBuffer, grpc::protobuf::MessageLite, grpc::ByteBuffer>(
            [function](Service* service, grpc::ServerContext* context, const Request* request, grpc::ByteBuffer* response) {
              std::string bytes;
              auto status = service->answer(context, function, *request, bytes);
              if (status.ok()) *response = buffer_of(std::move(bytes));
              return status;
            },
            this)));
  }
  // Without a copy.
  static grpc::ByteBuffer buffer_of(std::string bytes) {
    auto* const owned = new std::string(std::move(bytes));
    const grpc::Slice slice(
        owned->data(), owned->size(), [](void* string) { delete static_cast<std::string*>(string); }, owned);
    return {&slice, 1};
  }
  // GetRun of another server that wants only what is in memory here.
  [[nodiscard]] bool is_not_here(const grpc::ServerContext& context, const v1::GetRunRequest& request) const {
    return options_.fleet != nullptr && options_.fleet->mark(context) == kHeld && !options_.fleet->holds(request.run());
  }
  template <class Request>
  [[nodiscard]] bool is_not_here(const grpc::ServerContext& /*context*/, const Request& /*request*/) const {
    return false;
  }

  grpc::Status TailRun(grpc::ServerContext* context, const v1::TailRunRequest* request,
                       grpc::ServerWriter<v1::TailRunResponse>* writer);
  template <class Request, class Response>
  grpc::Status answer(grpc::ServerContext* context, Function<Request, Response> function, const Request& request,
                      Response& response) {
    if (is_passed_on(*context)) {
      for (const auto& [key, value] : options_.fleet->identity()) context->AddTrailingMetadata(key, value);
    }
    if (is_not_here(*context, request)) return {grpc::StatusCode::NOT_FOUND, "not in memory here"};
    return auth::answer(options_.gate, *context, [&](const auth::Caller& caller) {
      auto& api = is_passed_on(*context) ? options_.fleet->own : api_;
      return auth::to_grpc((auth::GuardedHistory(api, caller, name_of_).*function)(request, response), *context);
    });
  }
  // By another server: not to be passed on again.
  [[nodiscard]] bool is_passed_on(const grpc::ServerContext& context) const {
    return options_.fleet != nullptr && !options_.fleet->mark(context).empty();
  }
  // False: the run is here.
  bool tail_elsewhere(grpc::ServerContext& context, const auth::Caller& caller, const std::string& run,
                      grpc::ServerWriter<v1::TailRunResponse>& writer, grpc::Status& end);
  grpc::Status tail(grpc::ServerContext& context, const auth::Caller& caller, const std::string& run,
                    grpc::ServerWriter<v1::TailRunResponse>& writer);
  // The run, or the answer of get_run, which knows the nearest names.
  struct Found {
    std::string uid;
    std::string name;
  };
  grpc::Status resolve(const auth::Caller& caller, const std::string& run, Found& found);
  bool finished(const std::string& uid);

  engine::HistoryApi& api_;
  engine::Feed<engine::RunEvent>& feed_;
  engine::HistoryStore& store_;
  const auth::NameOfRun name_of_ = [this](const std::string& run) {
    const auto row = store_.find_run(run);
    return row ? row->name : std::string();
  };
  const ServiceOptions options_;
  std::atomic<std::size_t> tails_{0};
};

grpc::Status Service::resolve(const auth::Caller& caller, const std::string& run, Found& found) {
  if (const auto allowed = auth::check_read(caller, name_of_, run); !allowed.ok()) return auth::to_grpc(allowed);
  try {
    if (const auto row = store_.find_run(run)) {
      found = {row->run_uid, row->name};
      return grpc::Status::OK;
    }
  } catch (const engine::StoreError& error) {
    return {error.retryable ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::INTERNAL, error.what()};
  }
  v1::GetRunRequest request;
  request.set_run(run);
  v1::GetRunResponse response;
  const auto status = auth::GuardedHistory(api_, caller, name_of_).get_run(request, response);
  found = {response.run().run_uid(), response.run().name()};  // it may have come meanwhile
  return auth::to_grpc(status);
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
  return auth::answer(options_.gate, *context,
                      [&](const auth::Caller& caller) { return tail(*context, caller, request->run(), *writer); });
}

bool Service::tail_elsewhere(grpc::ServerContext& context, const auth::Caller& caller, const std::string& run,
                             grpc::ServerWriter<v1::TailRunResponse>& writer, grpc::Status& end) {
  if (is_passed_on(context)) return false;
  if (const auto allowed = auth::check_read(caller, name_of_, run); !allowed.ok()) {
    end = auth::to_grpc(allowed);
    return true;
  }
  auth::SlowReader reader(options_.gate, context);
  const auto cancelled = [&] { return context.IsCancelled() || !caller.known(); };
  for (int moves = 0; moves < kMoves && !cancelled(); ++moves) {
    engine::Status status;
    const auto write = [&](const v1::TailRunResponse& event) {
      moves = 0;
      return reader.write(writer, event);
    };
    if (!options_.fleet->tail_elsewhere(run, write, cancelled, status)) return false;
    end = auth::to_grpc(status);
    if (status.code != engine::Status::kUnavailable) return true;
    std::this_thread::sleep_for(kMoving);
  }
  if (cancelled()) end = grpc::Status::CANCELLED;
  return true;
}

grpc::Status Service::tail(grpc::ServerContext& context, const auth::Caller& caller, const std::string& run,
                           grpc::ServerWriter<v1::TailRunResponse>& writer) {
  const Seat seat(tails_, options_.max_tails);
  if (!seat.granted()) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            "all " + std::to_string(options_.max_tails) + " live readers are taken; close one or read the history instead"};
  }
  grpc::Status end;
  if (options_.fleet != nullptr && tail_elsewhere(context, caller, run, writer, end)) return end;
  auth::SlowReader reader(options_.gate, context);
  // Before the look-up, so that nothing falls between the two.
  const auto subscription = feed_.subscribe(options_.tail_capacity);
  Found found;
  if (auto status = resolve(caller, run, found); !status.ok()) return status;
  writer.SendInitialMetadata();
  // Events come after their commit: a run that is finished is told of once nothing came for a while.
  int quiet = 0;
  while (!context.IsCancelled()) {
    if (!caller.may_read(found.name)) return auth::to_grpc(auth::lost(caller));
    const auto batch = subscription->wait(kTailWait);
    quiet = batch.events.empty() && batch.dropped == 0 ? quiet + 1 : 0;
    if (quiet % kQuietWaits == kQuietWaits - 1 && !batch.closed && finished(found.uid)) return grpc::Status::OK;
    if (quiet % kQuietWaits == kQuietWaits - 1 && options_.fleet != nullptr && options_.fleet->is_elsewhere(found.uid)) {
      if (is_passed_on(context)) return {grpc::StatusCode::UNAVAILABLE, kMoved};
      if (tail_elsewhere(context, caller, run, writer, end)) return end;
    }
    if (batch.dropped > 0) {
      v1::TailRunResponse message;
      message.set_dropped(batch.dropped);
      if (!reader.write(writer, message)) return grpc::Status::CANCELLED;
    }
    for (const auto& event : batch.events) {
      if (event->run_uid == found.uid && !reader.write(writer, event->event)) return grpc::Status::CANCELLED;
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

#include "server/cli/client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "scalewatch/v1/history.grpc.pb.h"
#include "server/names/escape.h"

namespace scalewatch::cli {

namespace {

constexpr std::chrono::seconds kDeadline{10};
constexpr const char* kNote = "scalewatch-note";  // of a list: what it may lack
// A page of 1,000 findings with their advice is larger than gRPC's default of 4 MB.
constexpr int kMaxMessageBytes = 64 << 20;
// What a server may send before it is told that there is room for more: a page then comes at once, not 64 KB at a time.
constexpr int kWindowBytes = 1 << 20;
// A tail whose server vanished without a word must end. Servers refuse pings more often than every five minutes.
constexpr int kKeepaliveMs = 330'000;

std::shared_ptr<grpc::Channel> connect(const std::string& server, const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A proxy for the web is no way to a server on the cluster's network, let alone to 127.0.0.1.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return make_channel(server, credentials, arguments);
}

constexpr const char* kOtherPort =
    "pass scalewatchd's gRPC address as --server HOST:PORT (its --listen, port 7462 unless set; not its --http)";

// What took the connection and spoke no gRPC, from gRPC's own words for how the connection failed; empty when nobody did.
std::string who_answers(const std::string& said) {
  const auto says = [&](std::string_view words) { return said.find(words) != std::string::npos; };
  if (says("http1.x")) return "an HTTP/1 server answers, not scalewatchd's gRPC";
  if (!says("failed to connect")) return {};  // it was one before the connection broke
  for (const auto* words : {"SETTINGS", "Socket closed", "Connection reset", "HTTP/2", "Endpoint closing", "Broken pipe"}) {
    if (says(words)) return "something listens, but does not speak gRPC without encryption,";
  }
  return {};
}

// What OpenSSL said, in the midst of gRPC's words.
std::string tls_fault(const std::string& said) {
  const std::string_view sign = "SSL routines:";
  const auto at = said.rfind(sign);
  if (at == std::string::npos) return "the handshake failed: is it a server without TLS, or one that wants a certificate?";
  auto text = said.substr(at + sign.size());
  text = text.substr(0, text.find_first_of(",;{\""));
  while (text.starts_with(':')) text.erase(0, 1);
  return names::escape(text);
}

}  // namespace

struct Client::Impl {
  Impl(const std::string& address, const Credentials& credentials, std::stop_token stop_token)
      : server(without_scheme(address)),
        tls(wants_tls(address, credentials)),
        stop(std::move(stop_token)),
        channel(connect(address, credentials)),
        history(v1::History::NewStub(channel)),
        alerts(v1::Alerts::NewStub(channel)) {}

  std::string server;
  bool tls;
  std::stop_token stop;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::History::Stub> history;
  std::unique_ptr<v1::Alerts::Stub> alerts;
  std::function<void(const std::string&)> on_note;
  std::mutex notes_mutex;
  std::set<std::string> notes;  // that were told

  [[noreturn]] void fail(const grpc::Status& status) const {
    const std::string said = names::escape(status.error_message());
    const std::string where = names::escape(server);
    switch (status.error_code()) {
      case grpc::StatusCode::NOT_FOUND:
        throw CallError(said, kExitNothing, CallError::Kind::kNotFound);
      case grpc::StatusCode::INVALID_ARGUMENT:
        throw CallError(said, kExitUsage);
      case grpc::StatusCode::FAILED_PRECONDITION:
      case grpc::StatusCode::PERMISSION_DENIED:
      case grpc::StatusCode::UNAUTHENTICATED:
        throw CallError(said, kExitNothing);
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        throw CallError(
            fmt::format("no answer from {} within {} s: it is overloaded, or no scalewatchd listens there; try again, "
                        "or pass --server HOST:PORT",
                        where, kDeadline.count()),
            kExitNothing);
      case grpc::StatusCode::UNIMPLEMENTED:
        throw CallError(fmt::format("{} answers, but is no scalewatchd that knows this call ({}): check --server, or update it",
                                    where, said),
                        kExitNothing);
      case grpc::StatusCode::UNAVAILABLE:
        // Two things look alike: nobody is there, or scalewatchd says that it can't just now.
        if (channel->GetState(false) != GRPC_CHANNEL_READY) {
          if (tls && (said.find("andshake") != std::string::npos || said.find("SSL") != std::string::npos)) {
            throw CallError(fmt::format("no TLS with {}: {}; --ca-file says whose certificate to accept, and --cert-file and "
                                        "--key-file are this side's own",
                                        where, tls_fault(status.error_message())),
                            kExitNothing);
          }
          if (const auto met = who_answers(status.error_message()); !met.empty()) {
            throw CallError(fmt::format("{} at {}: {}", met, where, kOtherPort), kExitNothing);
          }
          throw CallError(fmt::format("no scalewatchd at {}: start one with `scalewatchd`, or pass --server HOST:PORT (or set "
                                      "SCALEWATCH_SERVER)",
                                      where),
                          kExitNothing);
        }
        throw CallError(fmt::format("scalewatchd at {} is not available: {}; try again", where, said), kExitNothing,
                        CallError::Kind::kNotNow);
      default:
        throw CallError(
            fmt::format("scalewatchd at {} failed (code {}): {}", where, static_cast<int>(status.error_code()), said),
            kExitNothing);
    }
  }

  template <class Response, class Stub, class Request>
  Response call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
    Response response;
    const auto status = (stub.*method)(&context, request, &response);
    if (!status.ok()) fail(status);
    const auto note = context.GetServerTrailingMetadata().find(kNote);
    if (note != context.GetServerTrailingMetadata().end()) tell({note->second.data(), note->second.size()});
    return response;
  }

  void tell(const std::string& note) {
    const std::lock_guard lock(notes_mutex);
    if (on_note && notes.insert(note).second) on_note(note);
  }

  template <class Response, class Open>
  void stream(const std::stop_token& stopped, const Open& open, const std::function<void(const Response&)>& visit) {
    grpc::ClientContext context;
    const std::stop_callback cancel(stopped, [&] { context.TryCancel(); });
    const auto reader = open(context);
    Response response;
    while (reader->Read(&response)) {
      if (!stopped.stop_requested()) visit(response);
    }
    const auto status = reader->Finish();
    if (!status.ok() && !stopped.stop_requested()) fail(status);
  }
};

Client::Client(const std::string& server, const Credentials& credentials, std::stop_token stop)
    : impl_(std::make_unique<Impl>(server, credentials, std::move(stop))) {}
Client::~Client() = default;

void Client::on_note(std::function<void(const std::string&)> told) {
  impl_->on_note = std::move(told);
}

void Client::note(const std::string& what) {
  impl_->tell(what);
}

v1::ListRunsResponse Client::list_runs(const v1::ListRunsRequest& request) {
  return impl_->call(*impl_->history, &v1::History::Stub::ListRuns, request);
}
v1::GetRunResponse Client::get_run(const v1::GetRunRequest& request) {
  return impl_->call(*impl_->history, &v1::History::Stub::GetRun, request);
}
v1::ListTensorsResponse Client::list_tensors(const v1::ListTensorsRequest& request) {
  return impl_->call(*impl_->history, &v1::History::Stub::ListTensors, request);
}
v1::GetTensorHistoryResponse Client::get_tensor_history(const v1::GetTensorHistoryRequest& request) {
  return impl_->call(*impl_->history, &v1::History::Stub::GetTensorHistory, request);
}
v1::GetAttemptResponse Client::get_attempt(const v1::GetAttemptRequest& request) {
  return impl_->call(*impl_->history, &v1::History::Stub::GetAttempt, request);
}
v1::TopTensorsResponse Client::top_tensors(const v1::TopTensorsRequest& request) {
  return impl_->call(*impl_->history, &v1::History::Stub::TopTensors, request);
}
v1::GetScalerHistoryResponse Client::get_scaler_history(const v1::GetScalerHistoryRequest& request) {
  return impl_->call(*impl_->history, &v1::History::Stub::GetScalerHistory, request);
}
v1::ListAlertsResponse Client::list_alerts(const v1::ListAlertsRequest& request) {
  return impl_->call(*impl_->alerts, &v1::Alerts::Stub::ListAlerts, request);
}
v1::AcknowledgeAlertResponse Client::acknowledge_alert(const v1::AcknowledgeAlertRequest& request) {
  return impl_->call(*impl_->alerts, &v1::Alerts::Stub::AcknowledgeAlert, request);
}

std::shared_ptr<grpc::Channel> Client::channel() const {
  return impl_->channel;
}
void Client::fail(const grpc::Status& status) const {
  impl_->fail(status);
}

void Client::tail_run(const v1::TailRunRequest& request, const std::stop_token& stop,
                      const std::function<void(const v1::TailRunResponse&)>& visit) {
  impl_->stream<v1::TailRunResponse>(
      stop, [&](grpc::ClientContext& context) { return impl_->history->TailRun(&context, request); }, visit);
}
void Client::watch_alerts(const v1::WatchAlertsRequest& request, const std::stop_token& stop,
                          const std::function<void(const v1::WatchAlertsResponse&)>& visit) {
  impl_->stream<v1::WatchAlertsResponse>(
      stop, [&](grpc::ClientContext& context) { return impl_->alerts->WatchAlerts(&context, request); }, visit);
}

}  // namespace scalewatch::cli

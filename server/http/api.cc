#include "server/http/api.h"

#include <google/protobuf/util/json_util.h>

#include <set>
#include <string>

#include "server/auth/guarded_alerts.h"

namespace scalewatch::http {

unsigned http_status(engine::Status::Code code) {
  switch (code) {
    case engine::Status::kOk:
      return 200;
    case engine::Status::kInvalidArgument:
      return 400;
    case engine::Status::kUnauthenticated:
      return 401;
    case engine::Status::kPermissionDenied:
      return 403;
    case engine::Status::kNotFound:
      return 404;
    case engine::Status::kFailedPrecondition:
      return 409;
    case engine::Status::kResourceExhausted:
      return 429;
    case engine::Status::kUnavailable:
      return 503;
    case engine::Status::kInternal:
      break;
  }
  return 500;
}

namespace {

Response to_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  Response response{200, kJson, {}, {}};
  const auto status = google::protobuf::util::MessageToJsonString(message, &response.body, options);
  if (!status.ok()) return error_response(500, "the answer cannot be written as JSON: " + std::string(status.message()));
  response.body += '\n';
  return response;
}

// Body, path and query become the request. Returns an answer when they can't.
template <class RequestMessage>
std::optional<Response> read_request(const Call& call, RequestMessage& message) {
  if (call.request.method == "POST") {
    // A content type that no HTML form can send keeps other sites' pages from posting through a user's browser.
    if (!call.request.content_type.starts_with(kJson)) return error_response(415, "Content-Type must be application/json");
    if (!call.request.body.empty()) {
      const auto status = google::protobuf::util::JsonStringToMessage(call.request.body, &message);
      if (!status.ok()) return error_response(400, "body: " + std::string(status.message()));
    }
  }
  std::set<std::string> in_path;
  for (const auto& [name, value] : call.path) in_path.insert(name);
  std::string error = set_fields(message, call.path);
  if (error.empty()) error = set_fields(message, call.url.query, in_path);
  if (!error.empty()) return error_response(400, error);
  return std::nullopt;
}

template <class RequestMessage, class ResponseMessage>
engine::Status ask(engine::HistoryApi& api, const ApiSources& sources, const Call& call,
                   engine::Status (engine::HistoryApi::*function)(const RequestMessage&, ResponseMessage&),
                   const RequestMessage& request, ResponseMessage& response) {
  return (auth::GuardedHistory(api, call.caller, sources.name_of).*function)(request, response);
}

template <class RequestMessage, class ResponseMessage>
engine::Status ask(engine::AlertsApi& api, const ApiSources& sources, const Call& call,
                   engine::Status (engine::AlertsApi::*function)(const RequestMessage&, ResponseMessage&),
                   const RequestMessage& request, ResponseMessage& response) {
  if (sources.gate == nullptr) return (api.*function)(request, response);
  return (auth::GuardedAlerts(api, *sources.gate, call.caller, sources.name_of).*function)(request, response);
}

template <class Api, class RequestMessage, class ResponseMessage>
Route route(const char* method, const char* pattern, std::function<Api*()> ApiSources::*api, const ApiSources& sources,
            engine::Status (Api::*function)(const RequestMessage&, ResponseMessage&)) {
  return {method, pattern, Speed::kWorker, [api, sources, function](const Call& call) -> Response {
            RequestMessage request;
            if (auto refused = read_request(call, request)) return *std::move(refused);
            Api* const target = (sources.*api)();
            if (target == nullptr) return error_response(503, "the server is starting or stopping; ask again");
            ResponseMessage response;
            const engine::Status status = ask(*target, sources, call, function, request, response);
            if (!status.ok()) return error_response(http_status(status.code), status.message);
            Response answer = to_json(response);
            if (!status.note.empty()) answer.headers.emplace_back("Scalewatch-Note", status.note);
            return answer;
          }};
}

}  // namespace

std::vector<Route> api_routes(const ApiSources& sources) {
  using engine::AlertsApi;
  using engine::HistoryApi;
  const auto history = &ApiSources::history;
  const auto alerts = &ApiSources::alerts;
  return {
      route("GET", "/api/v1/runs", history, sources, &HistoryApi::list_runs),
      route("GET", "/api/v1/runs/{run}", history, sources, &HistoryApi::get_run),
      route("GET", "/api/v1/runs/{run}/tensors", history, sources, &HistoryApi::list_tensors),
      route("GET", "/api/v1/runs/{run}/tensors/{tensor}/history", history, sources, &HistoryApi::get_tensor_history),
      route("GET", "/api/v1/runs/{run}/attempts/{attempt}", history, sources, &HistoryApi::get_attempt),
      route("GET", "/api/v1/runs/{run}/top", history, sources, &HistoryApi::top_tensors),
      route("GET", "/api/v1/runs/{run}/scaler", history, sources, &HistoryApi::get_scaler_history),
      route("GET", "/api/v1/runs/{run}/heatmap", history, sources, &HistoryApi::get_heat_map),
      route("GET", "/api/v1/alerts", alerts, sources, &AlertsApi::list_alerts),
      route("GET", "/api/v1/alerts/get", alerts, sources, &AlertsApi::get_alert),  // ?id=..., for ids hold slashes
      route("GET", "/api/v1/alerts/dead", alerts, sources, &AlertsApi::list_dead_letters),
      route("POST", "/api/v1/alerts/replay", alerts, sources, &AlertsApi::replay_dead_letters),
      route("GET", "/api/v1/silences", alerts, sources, &AlertsApi::list_silences),
      route("POST", "/api/v1/silences", alerts, sources, &AlertsApi::create_silence),
      route("POST", "/api/v1/silences/{id}/end", alerts, sources, &AlertsApi::end_silence),
      route("POST", "/api/v1/alerts/{id}/acknowledge", alerts, sources, &AlertsApi::acknowledge),
      route("POST", "/api/v1/alerts/acknowledge", alerts, sources, &AlertsApi::acknowledge),  // ?id=..., for ids with slashes
  };
}

}  // namespace scalewatch::http

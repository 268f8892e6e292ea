#include "server/http/tables.h"

#include <charconv>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "server/http/ask.h"
#include "server/http/table_rows.h"

namespace scalewatch::http {
namespace {

using engine::HistoryApi;
using engine::Status;

// What is taken from the query before the rest becomes the request.
struct Period {
  std::int64_t from_ms = 0;  // 0 = no bound
  std::int64_t to_ms = 0;
};

// Takes `from` and `to` out; returns what is wrong.
std::string take_period(Parameters& query, Period& period) {
  for (auto at = query.begin(); at != query.end();) {
    std::int64_t* const bound = at->first == "from" ? &period.from_ms : at->first == "to" ? &period.to_ms : nullptr;
    if (bound == nullptr) {
      ++at;
      continue;
    }
    const std::string& text = at->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *bound);
    if (error != std::errc() || end != text.data() + text.size() || *bound < 0) {
      return "parameter " + at->first + ": expected Unix milliseconds";
    }
    at = query.erase(at);
  }
  return {};
}

Response answer(const Rows& rows) {
  return {200, kJson, rows.dump(-1, ' ', false, Rows::error_handler_t::replace) + "\n", {}};
}

Response refusal(const Status& status) {
  return error_response(http_status(status.code), status.message);
}

// The request of a route, from path and query; an answer when they are wrong.
template <class RequestMessage>
std::optional<Response> read_request(const Call& call, RequestMessage& request, Period& period) {
  std::set<std::string> in_path;
  for (const auto& [name, value] : call.path) in_path.insert(name);
  Parameters query = call.url.query;
  std::string error = take_period(query, period);
  if (error.empty()) error = set_fields(request, call.path);
  if (error.empty()) error = set_fields(request, query, in_path);
  if (!error.empty()) return error_response(400, error);
  return std::nullopt;
}

// Narrows the range to the period. False: no attempt lies in both.
template <class RequestMessage>
bool narrow(RequestMessage& request, const Period& period, AttemptTimes& times) {
  v1::AttemptRange& range = *request.mutable_range();
  range.set_segment(times.segment());
  if (period.from_ms > 0) {
    const auto first = times.first_since(period.from_ms);
    if (!first) return false;
    range.set_first(std::max(range.first(), *first));
  }
  if (period.to_ms > 0) {
    const auto after = times.first_since(period.to_ms + 1);
    if (after && *after <= 1) return false;
    if (after) range.set_last(range.last() == 0 ? *after - 1 : std::min(range.last(), *after - 1));
  }
  return range.last() == 0 || range.first() <= range.last();
}

// A table whose rows belong to attempts.
template <class RequestMessage, class ResponseMessage>
Handler attempts_table(const ApiSources& sources, Status (HistoryApi::*function)(const RequestMessage&, ResponseMessage&),
                       Rows (*rows_of)(const ResponseMessage&, const AttemptTimes&)) {
  return [=](const Call& call) -> Response {
    RequestMessage request;
    Period period;
    if (auto refused = read_request(call, request, period)) return *std::move(refused);
    HistoryApi* const whole = sources.history();
    if (whole == nullptr) return error_response(503, "the server is starting or stopping; ask again");
    auth::GuardedHistory history(*whole, call.caller, sources.name_of);
    AttemptTimes times(history, request.run());
    Status status = times.open(request.range().segment());
    if (!status.ok()) return refusal(status);
    const bool any = narrow(request, period, times);
    if (!times.status().ok()) return refusal(times.status());
    if (!any) return answer(Rows::array());
    ResponseMessage response;
    status = ask(history, function, request, response);
    if (!status.ok()) return refusal(status);
    times.learn(std::max<std::uint64_t>(request.range().first(), 1),
                request.range().last() == 0 ? times.newest() : request.range().last());
    if (!times.status().ok()) return refusal(times.status());
    return answer(rows_of(response, times));
  };
}

template <class RequestMessage, class ResponseMessage>
Handler plain_table(const ApiSources& sources, Status (HistoryApi::*function)(const RequestMessage&, ResponseMessage&),
                    std::function<Rows(const ResponseMessage&, const Period&)> rows_of) {
  return [=, rows_of = std::move(rows_of)](const Call& call) -> Response {
    RequestMessage request;
    Period period;
    if (auto refused = read_request(call, request, period)) return *std::move(refused);
    HistoryApi* const whole = sources.history();
    if (whole == nullptr) return error_response(503, "the server is starting or stopping; ask again");
    auth::GuardedHistory history(*whole, call.caller, sources.name_of);
    ResponseMessage response;
    const Status status = ask(history, function, request, response);
    return status.ok() ? answer(rows_of(response, period)) : refusal(status);
  };
}

}  // namespace

std::vector<Route> table_routes(const ApiSources& sources) {
  const std::string run = "/api/v1/table/runs/{run}";
  const auto route = [](const std::string& pattern, Handler handler) {
    return Route{"GET", pattern, Speed::kWorker, std::move(handler)};
  };
  return {
      route(run + "/tensors",
            plain_table<v1::ListTensorsRequest, v1::ListTensorsResponse>(
                sources, &HistoryApi::list_tensors, [](const auto& response, const Period&) { return tensor_rows(response); })),
      route(run + "/findings",
            plain_table<v1::GetRunRequest, v1::GetRunResponse>(sources, &HistoryApi::get_run,
                                                               [](const auto& response, const Period& period) {
                                                                 return finding_rows(response, period.from_ms, period.to_ms);
                                                               })),
      route(run + "/ranks",
            plain_table<v1::GetRunRequest, v1::GetRunResponse>(
                sources, &HistoryApi::get_run, [](const auto& response, const Period&) { return rank_rows(response); })),
      route(run + "/tensors/{tensor}/history", attempts_table(sources, &HistoryApi::get_tensor_history, &history_rows)),
      route(run + "/scaler", attempts_table(sources, &HistoryApi::get_scaler_history, &scaler_rows)),
      route(run + "/top", attempts_table(sources, &HistoryApi::top_tensors, &top_rows)),
      route(run + "/heatmap", attempts_table(sources, &HistoryApi::get_heat_map, &heat_map_rows)),
  };
}

}  // namespace scalewatch::http

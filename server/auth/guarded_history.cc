#include "server/auth/guarded_history.h"

#include "server/engine/ports/history_store.h"

namespace scalewatch::auth {

using engine::Status;

namespace {

constexpr int kMostPages = 100;  // read for one that is shown

Status denied(const std::string& run) {
  return {Status::kPermissionDenied, "this token may not read run " + run + ": its scopes name other runs"};
}

}  // namespace

Status check_read(const Caller& caller, const NameOfRun& name_of, const std::string& run) {
  if (caller.may_read_all()) return {};
  try {
    const std::string name = name_of(run);
    return caller.may_read(name.empty() ? run : name) ? Status{} : denied(run);
  } catch (const engine::StoreError& error) {
    return {error.retryable ? Status::kUnavailable : Status::kInternal, error.what()};
  }
}

Status check_read_some(const Caller& caller) {
  return caller.may_read_some() ? Status{} : Status{Status::kPermissionDenied, "this token has no read scope"};
}

template <class Request, class Response>
Status GuardedHistory::ask(Status (engine::HistoryApi::*function)(const Request&, Response&), const Request& request,
                           Response& response) {
  if (caller_.may_read_all()) return (api_.*function)(request, response);
  if (Status status = check_read(caller_, name_of_, request.run()); !status.ok()) return status;
  Status status = (api_.*function)(request, response);
  // The store's own words for an unknown run name those that are like it.
  if (status.code == Status::kNotFound && name_of_(request.run()).empty()) {
    status.message = "no run \"" + request.run() + "\"";
  }
  return status;
}

Status GuardedHistory::list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) {
  if (caller_.may_read_all()) return api_.list_runs(request, response);
  if (Status status = check_read_some(caller_); !status.ok()) return status;
  v1::ListRunsRequest next = request;
  Status status;
  for (int page = 0; page < kMostPages; ++page) {
    v1::ListRunsResponse all;
    status = api_.list_runs(next, all);
    if (!status.ok()) return status;
    for (v1::RunSummary& run : *all.mutable_runs()) {
      if (caller_.may_read(run.name())) response.mutable_runs()->Add(std::move(run));
    }
    response.set_next_page_token(all.next_page_token());
    if (response.runs_size() > 0 || all.next_page_token().empty()) break;
    next.set_page_token(all.next_page_token());
  }
  return status;
}

Status GuardedHistory::get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) {
  Status status = ask(&engine::HistoryApi::get_run, request, response);
  if (status.ok() && !caller_.may_read(response.run().name())) {
    response.Clear();
    return denied(request.run());
  }
  return status;
}
Status GuardedHistory::list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response) {
  return ask(&engine::HistoryApi::list_tensors, request, response);
}
Status GuardedHistory::get_tensor_history(const v1::GetTensorHistoryRequest& request, v1::GetTensorHistoryResponse& response) {
  return ask(&engine::HistoryApi::get_tensor_history, request, response);
}
Status GuardedHistory::get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) {
  return ask(&engine::HistoryApi::get_attempt, request, response);
}
Status GuardedHistory::top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  return ask(&engine::HistoryApi::top_tensors, request, response);
}
Status GuardedHistory::get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response) {
  return ask(&engine::HistoryApi::get_scaler_history, request, response);
}
Status GuardedHistory::get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) {
  return ask(&engine::HistoryApi::get_heat_map, request, response);
}
Status GuardedHistory::encode_runs(const v1::ListRunsRequest& request, std::string& answer) {
  // What a caller may see of a list is decided by its names.
  return caller_.may_read_all() ? api_.encode_runs(request, answer) : HistoryApi::encode_runs(request, answer);
}
Status GuardedHistory::encode_attempt(const v1::GetAttemptRequest& request, std::string& answer) {
  return ask(&engine::HistoryApi::encode_attempt, request, answer);
}

}  // namespace scalewatch::auth

#include "server/fleet/own_history.h"

#include <set>
#include <string>

#include "server/fleet/run_list.h"

namespace scalewatch::fleet {

using engine::Status;
using Api = engine::HistoryApi;

Status OwnHistory::list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) {
  if (fleet_.shared() == nullptr) return local_.list_runs(request, response);
  RunListMerge merge(request, true);
  if (Status status = merge.begin(); !status.ok()) return status;
  shared_only_.refresh({});
  const auto here = [&](const v1::ListRunsRequest& page, v1::ListRunsResponse& out) { return local_.list_runs(page, out); };
  const auto shared = [&](const v1::ListRunsRequest& page, v1::ListRunsResponse& out) {
    for (v1::RunSummary& run : shared_only_.runs(page, {{}, true})) *out.add_runs() = std::move(run);
    return Status();
  };
  std::set<std::string> left_out;
  Status status = merge.run({{fleet_.self().name, here}, {"", shared}}, response, left_out);
  if (status.ok() && !shared_only_.whole()) status.note = kNotWhole;
  return status;
}

template <class Request, class Response>
Status OwnHistory::ask(Status (Api::*function)(const Request&, Response&), const Request& request, Response& response) {
  return ask_or_bring(fleet_, request.run(), response, [&] { return (local_.*function)(request, response); });
}

Status OwnHistory::get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) {
  return ask(&Api::get_run, request, response);
}
Status OwnHistory::list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response) {
  return ask(&Api::list_tensors, request, response);
}
Status OwnHistory::get_tensor_history(const v1::GetTensorHistoryRequest& request, v1::GetTensorHistoryResponse& response) {
  return ask(&Api::get_tensor_history, request, response);
}
Status OwnHistory::get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) {
  return ask(&Api::get_attempt, request, response);
}
Status OwnHistory::top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  return ask(&Api::top_tensors, request, response);
}
Status OwnHistory::get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response) {
  return ask(&Api::get_scaler_history, request, response);
}
Status OwnHistory::get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) {
  return ask(&Api::get_heat_map, request, response);
}
Status OwnHistory::encode_attempt(const v1::GetAttemptRequest& request, std::string& answer) {
  return ask(&Api::encode_attempt, request, answer);
}

}  // namespace scalewatch::fleet

// The History API of one server of a fleet, as the others ask for it: of its own runs, with those of them that only the shared
// history has (its disk was lost, or it keeps them no longer). Thread-safe.
#pragma once

#include <string>

#include "server/engine/ports/read_api.h"
#include "server/fleet/fleet.h"
#include "server/fleet/shared_only.h"

namespace scalewatch::fleet {

// Asks, and once more where what was not found is here only then: the shared history had the run as one of this server's. Of a
// run of a server that is gone what is shared answers, not an old state of it.
template <class Response, class Ask>
engine::Status ask_or_bring(Fleet& fleet, const std::string& run, Response& response, const Ask& ask) {
  if (!run.empty()) fleet.renew(run);
  engine::Status status = ask();
  if (status.code != engine::Status::kNotFound || run.empty() || !fleet.bring(run, true)) return status;
  response = {};
  return ask();
}

class OwnHistory final : public engine::HistoryApi {
 public:
  // All must outlive it.
  OwnHistory(Fleet& fleet, SharedOnly& shared_only, engine::HistoryApi& local)
      : fleet_(fleet), shared_only_(shared_only), local_(local) {}

  engine::Status list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) override;
  engine::Status get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) override;
  engine::Status list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response) override;
  engine::Status get_tensor_history(const v1::GetTensorHistoryRequest& request,
                                    v1::GetTensorHistoryResponse& response) override;
  engine::Status get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) override;
  engine::Status top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) override;
  engine::Status get_scaler_history(const v1::GetScalerHistoryRequest& request,
                                    v1::GetScalerHistoryResponse& response) override;
  engine::Status get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) override;
  engine::Status encode_attempt(const v1::GetAttemptRequest& request, std::string& answer) override;

 private:
  template <class Request, class Response>
  engine::Status ask(engine::Status (engine::HistoryApi::*function)(const Request&, Response&), const Request& request,
                     Response& response);

  Fleet& fleet_;
  SharedOnly& shared_only_;
  engine::HistoryApi& local_;
};

}  // namespace scalewatch::fleet

// The history as one caller may see it: other runs than its patterns name are not there, or refused. Made for one call.
#pragma once

#include <functional>
#include <string>

#include "server/auth/caller.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::auth {

// The name of a run by its name or uid; empty for one that is not known. May throw engine::StoreError.
using NameOfRun = std::function<std::string(const std::string& name_or_uid)>;

// kPermissionDenied when the caller may not read that run, which it named by name or uid; whether there is one is not told.
engine::Status check_read(const Caller& caller, const NameOfRun& name_of, const std::string& run);

// The same for all runs together, of which a caller then sees its own.
engine::Status check_read_some(const Caller& caller);

class GuardedHistory final : public engine::HistoryApi {
 public:
  // All must outlive it.
  GuardedHistory(engine::HistoryApi& api, const Caller& caller, const NameOfRun& name_of)
      : api_(api), caller_(caller), name_of_(name_of) {}

  // A page may hold fewer runs than were asked for, and none only when there are no more, or none among the next 10,000.
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
  engine::Status encode_runs(const v1::ListRunsRequest& request, std::string& answer) override;
  engine::Status encode_attempt(const v1::GetAttemptRequest& request, std::string& answer) override;

 private:
  template <class Request, class Response>
  engine::Status ask(engine::Status (engine::HistoryApi::*function)(const Request&, Response&), const Request& request,
                     Response& response);

  engine::HistoryApi& api_;
  const Caller& caller_;
  const NameOfRun& name_of_;
};

}  // namespace scalewatch::auth

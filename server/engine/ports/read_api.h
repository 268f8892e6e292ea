// The read side as plain functions, one per unary RPC: gRPC services and the HTTP API are thin adapters of the same objects, so
// that both give the same answers and the same errors. Thread-safe; never blocks ingest.
#pragma once

#include <cstdint>
#include <string>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"

namespace scalewatch::engine {

// What went wrong, by cause. Numbers equal gRPC's status codes; HTTP maps them to 200, 400, 401, 403, 404, 409,
// 429, 500, 503.
struct Status {
  enum Code : std::uint8_t {
    kOk = 0,
    kInvalidArgument = 3,
    kNotFound = 5,
    kPermissionDenied = 7,
    kResourceExhausted = 8,
    kFailedPrecondition = 9,
    kInternal = 13,
    kUnavailable = 14,
    kUnauthenticated = 16,
  };
  Code code = kOk;
  std::string message{};  // for people: what is wrong and what to do
  std::string note{};     // for people: what an answer that is ok may lack; told beside it
  [[nodiscard]] bool ok() const { return code == kOk; }
};

class HistoryApi {
 public:
  virtual ~HistoryApi() = default;
  virtual Status list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) = 0;
  virtual Status get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) = 0;
  virtual Status list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response) = 0;
  virtual Status get_tensor_history(const v1::GetTensorHistoryRequest& request, v1::GetTensorHistoryResponse& response) = 0;
  virtual Status get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) = 0;
  virtual Status top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) = 0;
  virtual Status get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response) = 0;
  virtual Status get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) = 0;

  // The answers of list_runs and get_attempt as they go over the wire, for callers that only pass them on. Who keeps them
  // encoded need not build a thousand messages to take them apart again.
  virtual Status encode_runs(const v1::ListRunsRequest& request, std::string& answer) {
    return encoded(&HistoryApi::list_runs, request, answer);
  }
  virtual Status encode_attempt(const v1::GetAttemptRequest& request, std::string& answer) {
    return encoded(&HistoryApi::get_attempt, request, answer);
  }

 private:
  template <class Request, class Response>
  Status encoded(Status (HistoryApi::*function)(const Request&, Response&), const Request& request, std::string& answer) {
    Response response;
    Status status = (this->*function)(request, response);
    response.SerializeToString(&answer);
    return status;
  }
};

class AlertsApi {
 public:
  virtual ~AlertsApi() = default;
  virtual Status list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) = 0;
  // Blocks until the acknowledgement is durable (a commit's delay).
  virtual Status acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) = 0;
  virtual Status get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) = 0;
  // These two block until the silence is durable.
  virtual Status create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) = 0;
  virtual Status end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) = 0;
  virtual Status list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) = 0;
  // Blocks until every sink has answered, or its time-out.
  virtual Status test_sinks(const v1::TestSinksRequest& request, v1::TestSinksResponse& response) = 0;
  virtual Status list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) = 0;
  // Blocks until their return into the queues is durable.
  virtual Status replay_dead_letters(const v1::ReplayDeadLettersRequest& request, v1::ReplayDeadLettersResponse& response) = 0;
};

}  // namespace scalewatch::engine

// A server with fixed answers, for tests of the command.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"

namespace scalewatch::cli {

// What the fake knows. Set before the server starts; requests are kept as they came.
struct FakeData {
  v1::ListRunsResponse runs;  // cut into pages of page_size
  int page_size = 1000;
  v1::GetRunResponse run;
  v1::ListTensorsResponse tensors;
  v1::GetTensorHistoryResponse history;
  v1::TopTensorsResponse top;
  v1::GetScalerHistoryResponse scaler;
  std::string scaler_not_now;                    // why GetScalerHistory is UNAVAILABLE; empty: it is not
  std::vector<v1::GetAttemptResponse> attempts;  // rising; cut into pages of page_size tensors
  v1::GetRunResponse baseline;                   // a second run, for those that take two
  std::vector<v1::GetAttemptResponse> baseline_attempts;
  v1::ListAlertsResponse alerts;
  v1::TailRunResponse tail[3];
  int fail_code = 0;  // a gRPC status that every call answers with
  std::string fail_message;
  bool hold_streams = false;  // a stream stays open until its reader goes
};

class FakeServer {
 public:
  explicit FakeServer(FakeData data);
  ~FakeServer();
  [[nodiscard]] std::string address() const;
  FakeData& data();

  // The newest request of its kind.
  v1::ListRunsRequest list_runs_request;
  v1::GetTensorHistoryRequest tensor_history_request;
  v1::TopTensorsRequest top_request;
  v1::GetScalerHistoryRequest scaler_request;
  v1::ListAlertsRequest list_alerts_request;
  v1::AcknowledgeAlertRequest acknowledge_request;
  std::atomic<int> calls{0};

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::cli

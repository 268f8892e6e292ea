// The one implementation of engine::HistoryApi; its functions are spread over runs_api.cc, tensors_api.cc, attempts_api.cc and
// scalers_api.cc. Those named do_* throw ApiError and StoreError; guard() makes a Status of them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/history/api_error.h"
#include "server/history/catalog.h"
#include "server/history/history_api.h"
#include "server/history/older_walk.h"
#include "server/history/report_reader.h"
#include "server/history/rows.h"
#include "server/history/segment_cover.h"

namespace scalewatch::history {

class Api final : public engine::HistoryApi {
 public:
  Api(SqliteStore& store, const ApiLimits& limits, OlderHistory* older)
      : store_(store), pool_(store.readers()), limits_(limits), older_(older), walks_(older), catalogs_(pool_) {}

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
  // What is asked of all tensors of a segment.
  struct Ask {
    v1::TopTensorsRequest::By by = v1::TopTensorsRequest::BY_UNSPECIFIED;
    v1::Role role = v1::ROLE_UNSPECIFIED;
    std::size_t limit = 0;
    bool records = true;  // false: only which ones; their attempt and worst record are not looked for
    ReportRange range;
  };
  // A tensor that leads.
  struct Top {
    std::uint32_t tensor = 0;  // in the catalog
    double score = 0;
    std::uint64_t attempt = 0;
    Measured worst;
  };
  // The tensors that lead, best first. `cover` of the range. `reached`: from where it was read when the time did not last for
  // all.
  std::vector<Top> leading(const Ask& ask, const Catalog& catalog, const SegmentCover& cover, Reading& reading,
                           std::uint64_t& reached);

  // A range of attempts that exists.
  struct Span {
    std::uint32_t segment = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  void do_encode_runs(const v1::ListRunsRequest& request, std::string& answer);
  void do_encode_attempt(const v1::GetAttemptRequest& request, std::string& answer);
  void do_get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response);
  void do_list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response);
  void do_get_tensor_history(const v1::GetTensorHistoryRequest& request, v1::GetTensorHistoryResponse& response);
  void do_top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response);
  void do_get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response);
  void do_get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response);

  // Throws NOT_FOUND with the nearest names.
  StoredRun run_named(const std::string& name_or_uid);
  // Throws for a segment that does not exist; 0 is the newest.
  static std::uint32_t checked_segment(const StoredRun& run, std::uint32_t segment, const char* field);
  // The range cut to what is stored; absent when that leaves nothing.
  std::optional<Span> span_of(Reading& reading, const StoredRun& run, const v1::AttemptRange& range);
  // Position in the catalog. Throws NOT_FOUND with the nearest names, INVALID_ARGUMENT for a name with several roles.
  static std::uint32_t tensor_named(const Catalog& catalog, const std::string& name, v1::Role role);
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const {
    return std::chrono::steady_clock::now() + limits_.read_time;
  }

  SqliteStore& store_;
  ReadPool& pool_;
  const ApiLimits limits_;
  OlderHistory* const older_;  // null: none
  OlderWalks walks_;
  CatalogCache catalogs_;
};

inline void clear(google::protobuf::Message& response) {
  response.Clear();
}
inline void clear(std::string& answer) {
  answer.clear();
}

// Runs `work` and makes a Status of what it throws; then the response is cleared.
template <class Response, class Work>
engine::Status guard(Response& response, const Work& work) {
  engine::Status status;
  clear(response);
  try {
    work();
    return status;
  } catch (const ApiError& error) {
    status = error.status;
  } catch (const engine::StoreError& error) {
    status = {error.retryable ? engine::Status::kUnavailable : engine::Status::kInternal, error.what()};
  } catch (const std::bad_alloc&) {
    status = {engine::Status::kResourceExhausted, "the answer does not fit the server's memory; ask for less"};
  }
  clear(response);
  return status;
}

// The message of an answer that work(answer) encodes.
template <class Response, class Work>
engine::Status guard_decoded(Response& response, const Work& work) {
  return guard(response, [&] {
    std::string answer;
    work(answer);
    if (!response.ParseFromString(answer)) throw ApiError{{engine::Status::kInternal, "the answer could not be encoded"}};
  });
}

}  // namespace scalewatch::history

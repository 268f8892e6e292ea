// The History API over the whole fleet: what is asked of a run is answered by the server that has it, lists are those of all.
//
// Only what a client asks comes here; what another server passes on is answered by the local API, so that no call goes round.
// A server that does not answer is left out of lists; of its runs the local API tells what the servers share, and where that
// may not be all the answer says so (Status::note). Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/ports/read_api.h"
#include "server/fleet/fleet.h"
#include "server/fleet/shared_only.h"

namespace scalewatch::fleet {

inline constexpr std::chrono::milliseconds kCallTimeout{10'000};  // of a call that is passed on
inline constexpr std::chrono::milliseconds kListTimeout{3'000};   // of a server's part of a list

// Which server answers for a run.
class Locator {
 public:
  // `local`: of this server alone. Both must outlive this.
  Locator(Fleet& fleet, engine::HistoryApi& local);
  // Null: this one, also for a run that nobody knows.
  [[nodiscard]] Peer* server_of(const std::string& name_or_uid);
  [[nodiscard]] Fleet& fleet() const { return fleet_; }
  [[nodiscard]] SharedOnly& shared_only() { return shared_only_; }

 private:
  // Absent: nobody knows it.
  [[nodiscard]] std::optional<Peer*> look(const std::string& name_or_uid);

  Fleet& fleet_;
  engine::HistoryApi& local_;
  struct Found {
    Peer* peer;
    std::chrono::steady_clock::time_point until;
  };
  std::mutex mutex_;
  std::map<std::string, Found> found_;
  SharedOnly shared_only_;
};

class FleetHistory final : public engine::HistoryApi {
 public:
  FleetHistory(Locator& locator, engine::HistoryApi& local) : locator_(locator), local_(local) {}

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

 private:
  Locator& locator_;
  engine::HistoryApi& local_;
};

// What to tell a client of a call that ended so at this peer.
[[nodiscard]] engine::Status to_status(Peer& peer, const grpc::Status& status);
// The peer did not answer, which is no answer about what was asked.
[[nodiscard]] bool is_silence(const grpc::Status& status);

// Of a call for a server's part of a list, which has ended: nothing is missing in it.
[[nodiscard]] bool tells_all(const grpc::ClientContext& context);
enum class Listed : std::uint8_t { kRuns, kAlerts };
// What such a list lacks that these peers have told their part of; empty: nothing.
[[nodiscard]] std::string missing(Locator& locator, const std::vector<Peer*>& told, Listed listed);

// TailRun, piped from wherever the run is. False: it is here. `write` returns false, and `cancelled` true, when the reader is
// gone.
bool tail_elsewhere(Locator& locator, const std::string& run, const std::function<bool(const v1::TailRunResponse&)>& write,
                    const std::function<bool()>& cancelled, engine::Status& end);

}  // namespace scalewatch::fleet

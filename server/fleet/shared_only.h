// What of the shared history no server that is there has: runs and open alerts whose server is gone, or has lost its disk.
// Lists tell of them; a question about such a run brings it (Fleet::bring).
//
// Read anew every few seconds at most, and left out while the shared history can't be read. Thread-safe.
#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"
#include "server/fleet/fleet.h"

namespace scalewatch::fleet {

// Where alerts stand in lists: the worst first, then the newest.
[[nodiscard]] inline auto order_of(const v1::Alert& alert) {
  return std::make_tuple(-static_cast<int>(alert.finding().severity()), -alert.fired_ms(), alert.id());
}

class SharedOnly {
 public:
  explicit SharedOnly(const Fleet& fleet) : fleet_(fleet) {}

  // Those that the request asks for, all of them in the order of ListRuns; its page is not looked at.
  [[nodiscard]] std::vector<v1::RunSummary> runs(const v1::ListRunsRequest& request);
  // The same of ListAlerts, of all runs.
  [[nodiscard]] std::vector<v1::Alert> alerts(const v1::ListAlertsRequest& request);

 private:
  void read();  // mutex_ held

  const Fleet& fleet_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point until_{};  // what follows is good until then
  std::vector<v1::RunSummary> runs_;
  std::vector<v1::Alert> alerts_;
};

}  // namespace scalewatch::fleet

// What only the shared history can tell of: runs and open alerts whose server is gone, has lost its disk, or keeps them no
// longer. Lists tell of them; a question about such a run brings it (Fleet::bring).
//
// Every server tells of its own ones, those that it claimed last; of those of a server that does not answer whoever is asked
// tells. Read anew every few seconds at most, in the background where that takes long: a list waits only where what was read
// last is too old, side by side with others and never for more than two seconds, and then has what was read last. Thread-safe.
#pragma once

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"
#include "server/fleet/fleet.h"

namespace scalewatch::fleet {

// Of a server's part of a list: what of its own only the shared history has is not in it.
inline constexpr char kNotWhole[] = "the shared history cannot be read now";

// Where alerts stand in lists: the worst first, then the newest.
[[nodiscard]] inline auto order_of(const v1::Alert& alert) {
  return std::make_tuple(-static_cast<int>(alert.finding().severity()), -alert.fired_ms(), alert.id());
}

class SharedOnly {
 public:
  static constexpr std::size_t kMaxRuns = 10'000;  // the newest
  static constexpr std::size_t kMaxAlerts = 1000;  // the worst

  explicit SharedOnly(const Fleet& fleet) : fleet_(fleet) {}

  // Who tells the list that this is a part of.
  struct Tellers {
    std::set<std::string> servers;  // that answer, with this one
    bool own = false;               // this server's part alone, which it tells another one
  };
  // Reads anew where that is due. Before the store is asked: what comes into the store in between is told by both, not by none.
  void refresh(const std::set<std::string>& servers);
  // Those that the request asks for, all of them in the order of ListRuns; its page is not looked at.
  [[nodiscard]] std::vector<v1::RunSummary> runs(const v1::ListRunsRequest& request, const Tellers& tellers);
  // The same of ListAlerts, of all runs.
  [[nodiscard]] std::vector<v1::Alert> alerts(const v1::ListAlertsRequest& request, const Tellers& tellers);
  // What the store has of this run is an old state of it, and counts for nothing: who else has it tells of it, or runs() does.
  [[nodiscard]] bool is_stump(const std::string& run_uid);
  // What was read last was all of it, but for what is beyond the bounds; false also where there is no such history.
  [[nodiscard]] bool whole();
  // There was more of it than the bounds.
  [[nodiscard]] bool more_runs();
  [[nodiscard]] bool more_alerts();

 private:
  struct Known {
    v1::RunSummary run;
    std::optional<std::string> here;  // as the store has it: whose it is
    bool stump = false;               // what the store has is an old state of it (Fleet::is_stump)
  };
  struct Read {
    bool whole = false;
    bool more_runs = false;
    bool more_alerts = false;
    std::vector<Known> runs;
    std::set<std::string> stumps;  // run_uids
    std::vector<v1::Alert> alerts;
  };
  [[nodiscard]] static Read read(const Fleet& fleet);
  void read_anew(const std::set<std::string>& servers);
  [[nodiscard]] bool is_ours(const Known& known, const Tellers& tellers) const;

  const Fleet& fleet_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point until_{};  // what follows is good until then
  std::set<std::string> servers_;                  // that answered when reading it began
  Read read_;
  bool reads_ = false;                // anew
  std::shared_future<void> reading_;  // last: its end waits for the thread
};

}  // namespace scalewatch::fleet

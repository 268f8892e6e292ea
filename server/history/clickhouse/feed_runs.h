// What each run still has to send, and what of it is on its way. Not thread-safe: the feeder's lock is held around every call.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/ports/history_store.h"
#include "server/history/feed_state.h"

namespace scalewatch::clickhouse {

struct FedRun {
  using SteadyClock = std::chrono::steady_clock;
  std::string name;  // where runs are claimed
  std::uint64_t term = 0;
  bool fed = false;
  bool log = false;  // entries
  bool row = false;  // its row, alerts, snapshot
  bool in_a_hurry = false;
  bool log_leaves = false;  // in the batch that is on its way
  bool row_leaves = false;
  [[nodiscard]] bool settled() const { return !log && !row && !log_leaves && !row_leaves; }
  std::optional<history::FeedState::Progress> progress;  // read when first needed
  std::uint64_t bytes = 0;                               // of payloads
  std::optional<SteadyClock::time_point> since;          // when the oldest of it was committed
  SteadyClock::time_point row_at{};                      // when its row was sent
  SteadyClock::time_point snapshot_at{};
};

// A run whose row is to be sent.
struct DueRow {
  std::string run_uid;
  std::uint64_t term = 0;
  std::uint64_t pos = 0;  // up to which its log is there
  bool snapshot = false;
};

class FeedRuns {
 public:
  using SteadyClock = FedRun::SteadyClock;
  // `claims`: runs are fed between own() and disown() only.
  explicit FeedRuns(bool claims) : claims_(claims) {}

  void behind(const std::string& run_uid);  // of its log something was not sent before this start
  void committed(const engine::CommitBatch& batch);
  void own(const std::string& run_uid, const std::string& name, std::uint64_t term);
  void disown(const std::string& run_uid);      // what is here of it waits for nothing
  void row_is_due(const std::string& run_uid);  // at once, with a snapshot
  void hurry(const std::string& run_uid);       // unless it is not known here
  void hurry_all();
  FedRun& operator[](const std::string& run_uid) { return runs_[run_uid]; }

  [[nodiscard]] bool settled(const std::string& run_uid) const;
  [[nodiscard]] bool row_waits(const std::string& run_uid) const;
  [[nodiscard]] bool all_settled() const;  // of those that are fed
  [[nodiscard]] bool hurries() const;      // a run that has something to send
  // Whether so many bytes of payloads wait that can be sent now.
  [[nodiscard]] bool has_waiting(std::uint64_t bytes) const;
  struct Waiting {
    std::uint64_t bytes = 0;
    std::optional<SteadyClock::time_point> since;
  };
  // Of what is fed, and of what is to be once its name can be claimed.
  [[nodiscard]] Waiting waiting() const;

  // Runs whose log is due, by run_uid.
  [[nodiscard]] std::vector<std::string> due() const;
  // What is committed from now on is another matter than what a batch takes of its log now.
  void leaves(const std::string& run_uid);
  // It took nothing of it, or not all: `more`.
  void stays(const std::string& run_uid, bool taken, bool more);
  // What was to leave is to be sent anew. `known`: as far as was known.
  void came_back(const std::string& run_uid, bool known);
  // All up to `pos` is there.
  void sent(const std::string& run_uid, std::uint64_t pos, std::uint64_t bytes);

  // Rows that are due at this time; they leave. `more`: of some run's log so many bytes wait that there is more to do at once.
  std::vector<DueRow> due_rows(SteadyClock::time_point now, std::uint64_t many_bytes, bool& more);
  void row_sent(const DueRow& row, SteadyClock::time_point now);
  void row_stays(const std::string& run_uid);
  // Of those that nothing waits of; they are looked up again when they speak.
  void forget_quiet(SteadyClock::time_point now);
  [[nodiscard]] bool knows(const std::string& run_uid) const { return runs_.contains(run_uid); }

 private:
  const bool claims_;
  std::map<std::string, FedRun> runs_;
};

}  // namespace scalewatch::clickhouse

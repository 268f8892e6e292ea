// Feeds ClickHouse with what was committed here, on a thread of its own: about one batch a second, read back from the store in
// the order of each run's log, so that what came while ClickHouse was away goes the same way as what comes now.
//
// Where a batch ends is noted in the store before it leaves: after a crash the same batch is sent again, row for row. While one
// that was full is on its way the next one is read, on another thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "server/engine/ports/clock.h"
#include "server/engine/ports/replication.h"
#include "server/history/clickhouse/batch_maker.h"
#include "server/history/clickhouse/claims.h"
#include "server/history/clickhouse/feed_runs.h"
#include "server/history/clickhouse/options.h"
#include "server/history/clickhouse/replicated_seqs.h"
#include "server/history/clickhouse/writer.h"
#include "server/history/feed_state.h"
#include "server/history/shared_history.h"

namespace scalewatch::clickhouse {

// Cumulative unless said otherwise.
struct FeedStats {
  std::uint64_t batches = 0;
  std::uint64_t records = 0;
  std::uint64_t errors = 0;     // requests that failed
  std::uint64_t lag_bytes = 0;  // now: of reports committed since this start, not sent
  double lag_seconds = 0;       // now: age of the oldest of these
  bool reachable = true;        // now: the newest try went well; tried every few seconds also with nothing to send
  bool thinning = false;        // now: more waits than is kept for it
  std::string error;            // the newest
};

class Feeder final : public history::SharedFeed, public engine::Replication {
 public:
  struct Who {
    std::string instance;  // this server's name
    bool claims = false;   // runs are fed between own() and disown() only, and claims of others are looked for
  };
  // Takes the store's on_commit(). Throws StoreError for options that can't be: a password that can't be read.
  Feeder(const Options& options, Who who, history::SqliteStore& store, const engine::Clock& clock);
  ~Feeder() override;  // stops at once

  // `replicated`: more of a run is in ClickHouse; called from the feeding thread.
  void start(std::function<void(const std::string& run_uid)> replicated);
  // Sends what is left, no longer than `most`.
  void stop(std::chrono::milliseconds most);

  void own(const std::string& run_uid, const std::string& name, std::uint64_t term) override;
  void disown(const std::string& run_uid) override;
  bool drain(const std::string& run_uid, std::chrono::milliseconds most) override;
  std::optional<std::uint64_t> term_of(const std::string& run_uid) override;
  std::vector<std::string> behind() override { return state_.behind(); }
  void on_lost(std::function<void(const std::string& run_uid, const history::SharedRun& now)> lost) override;
  std::uint64_t replicated_seq(const std::string& run_uid, std::uint32_t rank, const engine::Incarnation& incarnation) override;

  [[nodiscard]] FeedStats stats() const;

 private:
  using SteadyClock = FedRun::SteadyClock;

  // Whether a run's row, or alerts, are not there as they are here.
  [[nodiscard]] bool row_waits(const std::string& run_uid);
  void loop();
  // One round; true when there is more to do at once.
  bool round();
  // Makes batch_ of what is due, or of next_ where that still is what comes next.
  void fill();
  [[nodiscard]] std::vector<BatchMaker::Due> due();
  // What is due after batch_.
  [[nodiscard]] std::vector<BatchMaker::Due> due_after();
  void send_and_make_next();
  // False when a run of it is somebody else's now: what is left of it is made anew.
  bool send();
  bool write_rows();
  // After a start: whose rows, or alerts, are not as they were sent last, some runs at a time.
  void look_for_rows();
  // False, as send(), when one of its runs was claimed.
  bool look_for_claims();
  // Writes claims of ours again that the shared history has lost. True: there were such.
  bool renew_claims(const std::map<std::string, std::string>& names, const std::map<std::uint64_t, Claim>& owners);
  void lose(const Batch::Part& part, const std::string& name, const Claim& claim);
  void drop_old();
  void look_whether_it_is_there();
  void look_at_bound();
  void note_error(const std::string& what, bool lasts);
  [[nodiscard]] std::int64_t next_ms();

  const Options options_;
  const Who who_;
  history::SqliteStore& store_;
  const engine::Clock& clock_;
  history::FeedState state_;
  ReplicatedSeqs seqs_{state_};
  Writer writer_;     // of the feeding thread, as the next ones
  BatchMaker maker_;  // of one thread at a time
  ReadyBatch batch_;
  ReadyBatch next_;  // made while batch_ is sent
  bool prepared_ = false;
  bool claims_checked_ = false;                // for batch_
  std::optional<std::string> rows_after_{""};  // the next look_for_rows() goes on after this run; absent: all were looked at
  std::int64_t version_ms_ = 0;
  std::optional<SteadyClock::time_point> dropped_at_;
  std::atomic<bool> over_bound_{false};
  std::atomic<std::uint64_t> pressed_out_{0};  // of the retention, when last all was sent
  std::function<void(const std::string&)> replicated_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;     // of the feeding thread
  std::condition_variable settled_;  // of drain()
  FeedRuns runs_;
  std::function<void(const std::string&, const history::SharedRun&)> lost_;
  FeedStats stats_;
  bool stopping_ = false;
  SteadyClock::time_point stop_at_{};
  std::thread thread_;
};

}  // namespace scalewatch::clickhouse

// Groups what runs stage into transactions: a commit goes out `delay` after its first item, or sooner at `bytes`.
//
// A store that refuses does not lose anything: the same batch is tried again once a second until it is taken, while clients
// keep what is not durable and the streams' own limits bound what waits here. Alerts do not wait for it: with what they caused
// and what became of them they are stored ahead, where the store has room kept for that.
//
// What a store refuses for good (StoreError::retryable) costs the run whose rows it refuses, not the others: they are committed
// run by run then, and what is refused waits, with all that follows it of that run, and is tried again more and more seldom. So
// a run's log never has a hole, and its clients keep what is not in it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/engine/latency.h"
#include "server/engine/ports/alert_outbox.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

class CommitPipeline {
 public:
  using SteadyClock = std::chrono::steady_clock;
  struct Options {
    std::chrono::milliseconds delay{50};
    std::size_t bytes = 8U << 20;
    std::chrono::milliseconds retry{1000};
    std::chrono::milliseconds give_up_at_stop{5000};  // a store that still refuses then keeps the process no longer
    std::function<void()> after_commit;  // called on the committer thread after the on_durable of a transaction's items
  };
  struct Item {
    CommitBatch batch;
    std::function<void()> on_durable;  // called on the committer thread, after AlertOutbox::committed; may be empty
    std::string run{};                 // uid of the run that it waits with while the store refuses that; empty: none
    bool leaves{};                     // that run goes on elsewhere: what is refused of it was not acked, and comes again there
  };
  struct Stats {
    std::uint64_t commits = 0;
    std::uint64_t errors = 0;
    std::uint64_t bytes = 0;
    LatencyHistogram durations;  // the same, by transaction
  };
  struct Health {
    double oldest_seconds = 0;  // age of the oldest item that is not durable
    bool degraded = false;      // the store refuses
    std::string error;          // its newest refusal
  };

  // The ports must outlive the pipeline.
  CommitPipeline(Options options, HistoryStore& store, AlertOutbox& outbox);
  ~CommitPipeline();  // stops
  CommitPipeline(const CommitPipeline&) = delete;
  CommitPipeline& operator=(const CommitPipeline&) = delete;

  // Items become durable in the order of the calls, several in one transaction.
  void submit(Item item);
  // Commits what is there and ends the thread. Later items are refused silently: their clients were never acked.
  void stop();
  [[nodiscard]] Stats stats() const;
  // Of the server: degraded while the store takes no run's history. Runs that are refused alone do not count in its age.
  [[nodiscard]] Health health() const;
  // Of what that run brings.
  [[nodiscard]] Health health(const std::string& run_uid) const;

 private:
  // What is committed together.
  struct Round {
    std::vector<Item> items;        // their rows are moved out as it goes on
    std::set<std::string> refused;  // runs of which this round brought what is refused for good
  };
  // What was refused of a run, and all that came after it but alerts.
  struct Refused {
    CommitBatch batch;
    std::vector<std::function<void()>> done;
    SteadyClock::time_point since;
    SteadyClock::time_point again_at;
    std::chrono::milliseconds pause;
    std::string error;
  };

  void loop();
  // Returns false when the stop gave up.
  bool commit(Round& round);
  // One transaction, until it is taken, but for runs that are refused, or the stop gives up. Returns false in the latter case.
  bool commit_until_taken(CommitBatch batch, Round& round);
  // The store's refusal; nothing when it took all.
  std::optional<StoreError> try_commit(const CommitBatch& batch);
  // Commits each run's rows alone. Leaves in `batch` what the store can't take now, and returns why.
  std::optional<StoreError> commit_by_run(CommitBatch& batch, Round& round);
  // Moves what is about alerts out of the batch and of all that waits behind it into `ahead`, and items of which nothing is
  // left then into `done`. mutex_ held.
  void take_alerts(CommitBatch& batch, CommitBatch& ahead, std::vector<Item>& done);

  // Runs that are refused alone (commit_refused.cc).
  void refuse(const std::string& run, CommitBatch part, const std::string& why);
  // What follows what was refused of a run waits behind it.
  void hold_back(CommitBatch& batch);
  // Tries those that are due, or all of them for the last time.
  void retry_refused(bool last);
  // Calls what is to be called of items that are durable, and keeps that of the others.
  void settle(std::vector<Item>& items, const std::set<std::string>& refused);
  [[nodiscard]] SteadyClock::time_point next_retry() const;  // mutex_ held
  [[nodiscard]] Health store_health() const;                 // the same

  const Options options_;
  HistoryStore& store_;
  AlertOutbox& outbox_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Item> pending_;
  std::size_t pending_bytes_ = 0;
  SteadyClock::time_point oldest_pending_;
  SteadyClock::time_point oldest_in_flight_;
  bool in_flight_ = false;
  bool stopping_ = false;
  SteadyClock::time_point stop_deadline_;
  Stats stats_;
  Health health_;                           // of the store; its age is made when it is asked for
  std::map<std::string, Refused> refused_;  // by run; changed by the committer thread
  bool taken_since_refused_ = true;         // history of some run, since one was refused last
  std::thread thread_;                      // last: starts when everything else is there
};

}  // namespace scalewatch::engine

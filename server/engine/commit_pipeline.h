// Groups what runs stage into transactions: a commit goes out `delay` after its first item, or sooner at `bytes`.
//
// A store that refuses does not lose anything: the same batch is tried again once a second until it is taken, while clients
// keep what is not durable and the streams' own limits bound what waits here. Alerts do not wait for it: with what they caused
// and what became of them they are stored ahead, where the store has room kept for that. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/engine/latency.h"
#include "server/engine/ports/alert_outbox.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

class CommitPipeline {
 public:
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
  };
  struct Stats {
    std::uint64_t commits = 0;
    std::uint64_t errors = 0;
    std::uint64_t bytes = 0;
    LatencyHistogram durations;  // the same, by transaction
    double oldest_seconds = 0;   // now: age of the oldest item that is not durable
    bool degraded = false;       // now: the store refuses
    std::string error;           // its newest refusal
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

 private:
  void loop();
  // One transaction, until it is taken or the stop gives up. Returns false in the latter case.
  bool commit_until_taken(CommitBatch& batch);
  // Moves what is about alerts out of the batch and of all that waits behind it into `ahead`; gives back the callbacks of items
  // of which nothing is left. mutex_ held.
  std::vector<std::function<void()>> take_alerts(CommitBatch& batch, CommitBatch& ahead);

  const Options options_;
  HistoryStore& store_;
  AlertOutbox& outbox_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Item> pending_;
  std::size_t pending_bytes_ = 0;
  std::chrono::steady_clock::time_point oldest_pending_;
  std::chrono::steady_clock::time_point oldest_in_flight_;
  bool in_flight_ = false;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point stop_deadline_;
  Stats stats_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace scalewatch::engine

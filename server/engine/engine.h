// The engine: runs, segments, streams and strands; closing of attempts; the commit pipeline.
//
// Rooms around it talk to it through this header only: ingest attaches streams; history, alerting, metrics and http read
// overviews and feeds. Everything here is thread-safe and never blocks on the store unless it says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"
#include "scalewatch/v1/ingest.pb.h"
#include "server/domain/collection.h"
#include "server/domain/thresholds.h"
#include "server/engine/feed.h"
#include "server/engine/latency.h"
#include "server/engine/ports/alert_outbox.h"
#include "server/engine/ports/clock.h"
#include "server/engine/ports/history_store.h"
#include "server/engine/ports/read_api.h"
#include "server/engine/ports/replication.h"
#include "server/engine/ports/run_placement.h"
#include "server/engine/readings.h"

namespace scalewatch::engine {

struct EngineOptions {
  unsigned threads = 2;                         // of the strands' pool
  std::chrono::milliseconds commit_delay{50};   // after the first uncommitted report
  std::size_t commit_bytes = 8u << 20;          // commit sooner at this size
  std::chrono::milliseconds close_after{2000};  // an attempt closes this long after its first report
  std::uint64_t close_lead = 8;                 // or when a rank is this many attempts ahead
  std::chrono::milliseconds snapshot_every{10'000};
  // A stream that brings nothing for this long counts as gone until it speaks again: heartbeats come every 5 s, and a worker
  // that outlives its trainer keeps the socket open.
  std::chrono::milliseconds silent_after{15'000};
  std::size_t stream_queue_bytes = 1u << 20;   // a stream is not read beyond this much unfolded or uncommitted
  std::size_t run_queue_bytes = 64u << 20;     // nor a run
  std::size_t total_queue_bytes = 512u << 20;  // nor all together
  std::uint32_t max_runs = 100'000;            // names known in all
  std::uint32_t max_ranks = 100'000;           // of a run
  v1::Limits limits;                           // sent in HelloAck; see default_limits()
  domain::Thresholds thresholds;
  // Of the run of that name; empty: `thresholds`, for every run. Any thread. See Engine::change_rules.
  std::function<domain::Thresholds(const std::string& run)> thresholds_of;
  domain::CollectionOptions collection;
  std::uint32_t top_tensors = 10;  // of a run, with the least headroom, in its readings; at most 100
  // Where several servers share the runs; must outlive the engine. Null: every run is this server's. With it no run is loaded
  // at the start but those that adopt() names.
  RunPlacement* placement = nullptr;
  std::string instance;  // this server's name among them, as summaries of its runs say it
  // The history that several servers share; must outlive the engine. Null: there is none, and Ack.replicated_seq stays 0.
  Replication* replication = nullptr;
  bool keep_until_replicated = false;  // clients keep what is not there yet, and a goodbye waits for it
};
// 1,000,000 tensors, 512 bytes a name, 32 MiB a message.
v1::Limits default_limits();

// The other end of a stream: what the engine tells the client. Calls come from any thread, never after Stream::closed()
// returned, and must not block.
class StreamPeer {
 public:
  virtual ~StreamPeer() = default;
  virtual void send(const v1::ServerMessage& message) = 0;
  // There is room again: on_message may be called. Follows every on_message that returned kPause.
  virtual void resume() = 0;
  // Ends the stream: the peer sends what is queued and this fault, then finishes with the fault's message as an error.
  virtual void end(const v1::Fault& fault) = 0;
  // Ends the stream in order: the peer sends what is queued, then finishes with OK.
  virtual void finish() = 0;
};

// One rank's stream. Calls come from one thread at a time.
class Stream {
 public:
  enum class Next : std::uint8_t {
    kContinue,  // read on
    kPause,     // read on after StreamPeer::resume()
    kStop,      // nothing more is read: StreamPeer::end was called, or finish will be once all that was taken is durable
  };
  virtual ~Stream() = default;
  // Validates and takes in one message. Never throws on bad input: that ends in a Fault.
  virtual Next on_message(v1::ClientMessage&& message) = 0;
  // The connection is gone, by whatever cause. Nothing is called afterwards.
  virtual void closed() = 0;
};

// Counters of the server itself; all cumulative unless said otherwise.
struct EngineStats {
  std::uint64_t reports = 0;
  std::uint64_t records = 0;
  std::uint64_t reports_repeated = 0;
  std::uint64_t reports_rejected = 0;
  std::uint64_t reports_lost = 0;     // announced by clients
  std::uint64_t reports_thinned = 0;  // came without their full statistics
  std::uint64_t reports_late = 0;     // after their attempt had closed
  std::uint64_t streams_fenced = 0;
  std::uint64_t commits = 0;
  std::uint64_t commit_errors = 0;
  std::uint64_t committed_bytes = 0;  // payloads
  LatencyHistogram commit_durations;  // of transactions, refused ones too
  std::uint64_t streams_open = 0;     // now
  std::uint64_t queued_bytes = 0;     // now: taken from clients, not yet durable
  std::uint64_t queue_limit = 0;      // EngineOptions::total_queue_bytes
  double lag_seconds = 0;             // now: age of the oldest report that is not durable, but for runs that are refused alone
  bool history_degraded = false;      // now: the store takes no history of any run
};

// What is shown of a run in memory: never null but for the readings of one that nobody joined since this server began.
struct RunShown {
  std::shared_ptr<const v1::GetRunResponse> overview;
  std::shared_ptr<const RunReadings> readings;
};

// What a live reader of a run sees, once it is durable.
struct RunEvent {
  std::string run_uid;
  v1::TailRunResponse event;
};

class Engine {
 public:
  // The ports must outlive the engine. Loads the runs that were running; throws StoreError.
  Engine(EngineOptions options, HistoryStore& store, AlertOutbox& outbox, Clock& clock);
  ~Engine();  // drains as stop() does
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A new connection whose first message will be a Hello. Never null.
  std::shared_ptr<Stream> attach(std::shared_ptr<StreamPeer> peer);

  // Logs that somebody is on a finding; `done` is called once, from any thread: with OK once that is durable, else with what is
  // wrong (it is unknown, it is resolved, or its run can't be taken up now). Reads the store where the run is not in memory.
  void acknowledge(const std::string& alert_id, const std::string& who, const std::string& comment,
                   std::function<void(const Status& status)> done);

  // From now on the rules of the run of a name are these: every run takes what is new to it at once, as a logged input, and
  // rank-local windows with each rank's next report. A restart that folds the log finds the same. `thresholds_of` is called
  // from any thread, for as long as the engine lives.
  void change_rules(std::function<domain::Thresholds(const std::string& run)> thresholds_of);

  // Loads a run that the store has and that is this server's (see RunPlacement), as at a start; one that is in memory already
  // stays as it is. Reads the store; throws StoreError.
  void adopt(const std::string& run);
  // The run goes on elsewhere: what was taken of it is committed, its row says that it is `instance`'s, and it leaves memory.
  // Its streams stay as they are, and what they bring is not acked any more, until `leave` ends them with MOVED to a server, or
  // with SHUTTING_DOWN where none is known (""); `done` gets it once the commit is durable, from any thread, or at once when
  // the run is not in memory (nothing to end then).
  using Leave = std::function<void(const std::string& server)>;
  void hand_over(const std::string& run, const std::string& instance, std::function<void(const Leave& leave)> done);
  // More of the run is replicated (EngineOptions::replication): its clients are told.
  void replicated(const std::string& run_uid);
  // Whether the run of that name, or of that uid, is in memory.
  [[nodiscard]] bool holds(const std::string& name_or_uid) const;
  // Runs `work`, which removes the run of that name from the store, and takes the run up only afterwards: whoever comes
  // meanwhile is told to come again. False, and nothing is done, when it is in memory: what it commits refers to what is
  // stored. Without `work` it only asks.
  bool unless_held(const std::string& run, const std::function<void()>& work);

  // Puts delivery outcomes into a coming commit.
  void submit(std::vector<OutboxUpdate> updates);
  // The same of what no input of a run caused (time, silences); `on_durable` is called on the committer thread.
  void submit(CommitBatch batch, std::function<void()> on_durable);

  // Newest overview of the runs in memory: GetRunResponse without findings other than the open ones. Cheap.
  [[nodiscard]] std::vector<std::shared_ptr<const v1::GetRunResponse>> overviews() const;
  // The same with what only metrics show.
  [[nodiscard]] std::vector<RunShown> shown() const;
  [[nodiscard]] EngineStats stats() const;

  // What became durable: closed attempts and findings of every run; alerts whose state changed.
  Feed<RunEvent>& run_feed();
  Feed<v1::Alert>& alert_feed();

  // Ends streams with SHUTTING_DOWN, folds and commits all that was taken, closes the feeds. Blocks until done.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::engine

// The history that several servers share, as the one that takes a run over sees it, and as the one that feeds it does.
//
// A run's rows go there from the store of the server that owns it, in the order of the run's log (`pos`), after they were
// committed. Everything up to a place in that log is there, or nothing yet of what follows: a run is taken over by bringing
// these rows into the new owner's own store (import_run), where it then is folded as after a restart.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/ports/history_store.h"

namespace scalewatch::history {

class SqliteStore;

// A run as it stands there.
struct SharedRun {
  engine::RunRow row;
  std::string instance;         // that claimed it last; empty: no server did
  std::uint64_t term = 0;       // of that claim: 1 for the first, one more for each; 0: none
  std::int64_t claimed_ms = 0;  // its own clock, for display
};

// Reads and claims. Every call waits for the network, some seconds at worst. Thread-safe. All throw StoreError; `retryable`
// when the history can't be reached now.
class SharedHistory {
 public:
  virtual ~SharedHistory() = default;

  // Newest report first.
  virtual std::vector<SharedRun> list_runs(std::size_t limit) = 0;
  // By run_uid, else by name. Of several of that name (two servers that made it at the same moment) the one with the smallest
  // created_ms, then run_uid.
  virtual std::optional<SharedRun> find_run(const std::string& name_or_uid) = 0;
  // Alerts of all runs that are open (firing or acknowledged), worst first.
  virtual std::vector<engine::AlertRow> open_alerts(std::size_t limit) = 0;

  // Says that the run is `instance`'s from now on, and returns the claim's term. Of two servers that claim at the same moment
  // one gets the larger term: it, and only it, is the owner; the other learns so from SharedFeed's `lost`, or from find_run().
  virtual std::uint64_t claim(const std::string& run_uid, const std::string& instance) = 0;

  // Everything that a takeover needs, as batches that can be committed to a store in the order in which they come: run,
  // incarnations (durable_seq is what is replicated), tensor tables, then reports and logged inputs from the place on that the
  // newest snapshot needs, in order of pos, then the snapshot and the alerts. Where servers disagreed about a place in the log,
  // the later term's entry goes. False when there is no such run.
  virtual bool load_run(const std::string& run_uid, const std::function<void(engine::CommitBatch&&)>& take) = 0;
  // By segment: all attempts before this one that are there, are there as a whole.
  virtual std::map<std::uint32_t, std::uint64_t> floors(const std::string& run_uid) = 0;
};

// Brings a run into a store: removes what the store has of it (it is older, or was never shared), commits what load_run()
// gives, and notes that older attempts are asked of the shared history. False when there is no such run. To be called while the
// run is not in the engine's memory; done again from its beginning after a crash. Throws StoreError.
bool import_run(SharedHistory& shared, const std::string& run_uid, SqliteStore& into);

// What a server's own runs send. Thread-safe; nothing here waits for the network but drain().
class SharedFeed {
 public:
  virtual ~SharedFeed() = default;

  // Where servers claim runs, a run is fed only between own() and disown(), under this term. Rows of an older term lose against
  // it.
  virtual void own(const std::string& run_uid, std::uint64_t term) = 0;
  virtual void disown(const std::string& run_uid) = 0;
  // Waits until all of the run that is durable here is there too. False when that took longer than `most`.
  virtual bool drain(const std::string& run_uid, std::chrono::milliseconds most) = 0;
  // Called, from the feeding thread, when a run that is fed turns out to have a claim of a later term; it is not fed any more
  // then.
  virtual void on_lost(std::function<void(const std::string& run_uid, const SharedRun& now)> lost) = 0;
};

}  // namespace scalewatch::history

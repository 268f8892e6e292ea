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
#include <set>
#include <string>
#include <vector>

#include "server/engine/ports/history_store.h"

namespace scalewatch::history {

class SqliteStore;

// A run as it stands there.
struct SharedRun {
  engine::RunRow row;
  std::string instance;           // that claimed its name last; empty: no server did
  std::uint64_t term = 0;         // of that claim: 1 for the first, more for each later one; 0: none
  std::int64_t claimed_ms = 0;    // its own clock, for display
  std::uint64_t row_term = 0;     // of the claim under which `row` was sent
  std::uint64_t row_version = 0;  // rises each time that it is sent
};

// Reads and claims. Every call waits for the network, some seconds at worst. Thread-safe. All throw StoreError; `retryable`
// when the history can't be reached now.
class SharedHistory {
 public:
  virtual ~SharedHistory() = default;

  // Makes what runs now, and what follows, fail at once: nobody waits at a server's end. Any thread.
  virtual void cancel() {}

  // Newest report first; of several runs of one name the one that find_run() gives.
  enum class Which : std::uint8_t { kAll, kRunning };
  virtual std::vector<SharedRun> list_runs(std::size_t limit, Which which) = 0;
  // By run_uid, else by name. Of several of that name (a server died before it could share the one that it had made) the one
  // that was sent under the latest claim.
  virtual std::optional<SharedRun> find_run(const std::string& name_or_uid) = 0;
  // By name alone: a run may be called as another one's run_uid.
  virtual std::optional<SharedRun> find_named(const std::string& name) = 0;
  // How far the log of a run was sent under the claim of this term; 0: nothing was.
  virtual std::uint64_t last_place(const std::string& run_uid, std::uint64_t term) = 0;
  // Alerts of all runs that are open (firing or acknowledged), worst first.
  virtual std::vector<engine::AlertRow> open_alerts(std::size_t limit) = 0;
  // Of all alerts of a run, whatever became of them.
  virtual std::set<std::string> alert_ids(const std::string& run_uid) = 0;

  // Says that the run of this name is `instance`'s from now on, and returns the claim's term, which no other claim has. Whoever
  // had it before tells no client of anything more (SharedFeed looks before it does): what can be read after this call is all
  // that anybody was told of. So the claim comes first, then the look at what there is. A name is claimed and not a run_uid,
  // for a server that can't see another one's run would make one of its own. The term is above `known`, too, which the caller
  // has of the run: a history that was lost, or put back from a copy, does not know of claims that stood.
  virtual std::uint64_t claim(const std::string& name, const std::string& instance, std::uint64_t known = 0) = 0;

  // Everything that a takeover needs, as batches that can be committed to a store in the order in which they come: run,
  // incarnations (durable_seq is what is replicated), tensor tables, then reports and logged inputs from the place on that the
  // newest snapshot needs, in order of pos, then the snapshot and the alerts. Where servers disagreed about a place in the log,
  // the later term's entry goes. False when there is no such run.
  virtual bool load_run(const std::string& run_uid, const std::function<void(engine::CommitBatch&&)>& take) = 0;
  // By segment: all attempts before this one that are there, are there as a whole.
  virtual std::map<std::uint32_t, std::uint64_t> floors(const std::string& run_uid) = 0;
};

// What this server's own store refused, and not the shared history.
class OwnStoreError : public engine::StoreError {
 public:
  using StoreError::StoreError;
};

// Runs `work`, which is with this server's own store alone.
template <class Work>
auto in_own_store(const Work& work) {
  try {
    return work();
  } catch (const engine::StoreError& error) {
    throw OwnStoreError(error.what(), error.retryable);
  }
}

// Brings a run into a store under a claim of its name: removes what the store has of that name (it is older, or was never
// shared), commits what load_run() gives, and notes that older attempts are asked of the shared history. Under no claim (0) it
// comes for a question, and stays for a while (Retention::comes_back). False when there is no such run. Alerts of it stay that
// were never shared, where somebody was told of one and not of its end. To be called while the run is not in the engine's
// memory; after a crash the store's term (SharedFeed::term_of) says that it was not finished. Throws StoreError,
// OwnStoreError where it is `into` that refuses.
bool import_run(SharedHistory& shared, const std::string& run_uid, std::uint64_t term, SqliteStore& into);

// What a server's own runs send. Thread-safe; nothing here waits for the network but drain().
class SharedFeed {
 public:
  virtual ~SharedFeed() = default;

  // Where servers claim runs, a run is fed only between own() and disown(), under the term of the claim of its name. Rows of an
  // older term lose against it.
  virtual void own(const std::string& run_uid, const std::string& name, std::uint64_t term) = 0;
  virtual void disown(const std::string& run_uid) = 0;
  // Waits until all of the run that is durable here is there too. False when that took longer than `most`.
  virtual bool drain(const std::string& run_uid, std::chrono::milliseconds most) = 0;
  // The term under which what is stored here of a run was fed last, or was brought here; 0: none; absent: not noted (a store of
  // before).
  virtual std::optional<std::uint64_t> term_of(const std::string& run_uid) = 0;
  // Stored runs, by run_uid, of whose log something was not sent. Throws StoreError.
  virtual std::vector<std::string> behind() = 0;
  // Called, from the feeding thread, when a run that is fed turns out to have a claim of a later term; it is not fed any more
  // then.
  virtual void on_lost(std::function<void(const std::string& run_uid, const SharedRun& now)> lost) = 0;
};

}  // namespace scalewatch::history

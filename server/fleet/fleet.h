// Whose a run is, within a fleet: who takes it, who takes it over, and how it leaves a server that stops.
//
// A run belongs to the server that has it in memory. One that nobody has goes to the heaviest server that is there (see
// instances.h), so that it stays where it is when others come and go, and only comes home once it has ended. With a shared
// history a server claims each of its runs there under a term; a claim of a later term ends an older one, which is how two
// owners that could not see each other end as one. A run that another server had before is brought from there first.
// No clock of one server is compared with another's.
//
// Whose a run is changes one thing at a time: what takes it, copies it, gives it up or finds it given up holds the run's lock
// (RunLocks) from its look at the shared history until the run is in memory, or is let go of. And rows come into the store in
// one place, import(), behind everything that was staged of the run here. So nothing that a server wrote when it gave a run up
// is committed over what it brings later. What still differs between a run's alerts and its findings is put right when the
// engine reads it back (AlertOutbox::reconcile).
//
// Thread-safe. Life: construct, make the engine with it, start(), ... drain(), stop() before the engine's.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/ports/run_placement.h"
#include "server/fleet/own_room.h"
#include "server/fleet/peers.h"
#include "server/fleet/run_locks.h"
#include "server/history/shared_history.h"

namespace scalewatch::fleet {

// What the fleet works on. All must outlive it.
struct Parts {
  engine::HistoryStore& store;
  // Both or none. Without them a run whose server is gone begins anew on another one.
  history::SharedHistory* shared = nullptr;
  history::SharedFeed* feed = nullptr;
  bool required = false;  // clients keep their reports until they are shared: no run is taken while it can't be read
  // history::import_run into `store`.
  std::function<bool(const std::string& run_uid, std::uint64_t term)> import{};
  // Whether `store` has room for a run; empty: it has.
  std::function<bool()> has_room{};
  // How far the log of a run goes that is in `store`; of one that is doubted, went at the start that found commits missing.
  // Which runs are; and that one was looked at (history::FeedState). All throw StoreError.
  std::function<std::uint64_t(const std::string& run_uid)> last_place{};
  std::function<std::vector<std::string>()> doubted{};
  std::function<void(const std::string& run_uid)> trust{};
  // The run's alerts are in the store, or are another server's from now on. What that changes is staged by then.
  std::function<void(const std::string& run_uid)> alerts_come{};
  std::function<void(const std::string& run_uid)> alerts_go{};
  // Ids of alerts of a run that went, of which somebody was told here and not of their end; and that these are over, which
  // tells that. Both throw StoreError.
  std::function<std::vector<std::string>(const std::string& run_uid)> left_open{};
  std::function<void(const std::vector<std::string>& ids)> end_alerts{};
};

struct Stats {
  std::uint64_t moved = 0;       // clients that were sent to another server
  std::uint64_t taken_over = 0;  // runs brought from the shared history
  std::uint64_t yielded = 0;     // runs that had two owners and were given up here
  std::uint64_t peers_alive = 0;
  std::uint64_t peers = 0;
  std::uint64_t placed = 0;  // runs of which it is known now whose they are
};

class Fleet final : public engine::RunPlacement {
 public:
  Fleet(Options options, Peers& peers, Parts parts);
  ~Fleet() override;  // stops
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  void enter(const std::string& run, Done done) override;

  // Begins to look at the others and to answer. Runs of before that are still this server's go on, in the background.
  void start(engine::Engine& engine);
  // Hands every run over: what is durable is shared, then streams are sent to the next server. Waits for as long as is
  // configured; runs that could not be shared by then leave all the same. Nothing is taken from now on.
  void drain();
  void stop();

  [[nodiscard]] bool holds(const std::string& name_or_uid) const;
  [[nodiscard]] const Instance& self() const { return peers_.all()[peers_.self()]; }
  [[nodiscard]] Peers& peers() const { return peers_; }
  [[nodiscard]] history::SharedHistory* shared() const { return parts_.shared; }
  // What this server tells the others of itself, as metadata.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> identity() const;
  // The server of this name is this one, or is there.
  [[nodiscard]] bool is_there(const std::string& instance) const;
  // Whose the run is, as the store has it ("": nobody's in particular); absent: the store has none of that run_uid.
  [[nodiscard]] std::optional<std::string> owner_here(const std::string& run_uid) const;
  // Copies a run that only the shared history has into the store, for questions; it stays whose it was. False: there is none.
  // `own`: only one that this server claimed last.
  bool bring(const std::string& name_or_uid, bool own = false);
  // What is here of the run is an old state of it: the store has it as another server's, and what is shared was sent under a
  // later claim.
  [[nodiscard]] bool is_stump(const history::SharedRun& there) const;
  // Before a question about a run that the store has as that of a server which is gone: where it is a stump, what is shared
  // takes its place, as bring() does. Asks the shared history once in a while only. Throws nothing.
  void renew(const std::string& name_or_uid);
  // The peers that have the run in memory. `by_name`: not one whose run_uid that is.
  [[nodiscard]] std::vector<Peer*> holders(const std::string& name_or_uid, bool by_name = false) const;
  [[nodiscard]] Stats stats() const;

 private:
  enum class State : std::uint8_t { kDeciding, kHere, kElsewhere };
  struct Entry {
    State state = State::kDeciding;
    Peer* owner = nullptr;                          // kElsewhere
    std::chrono::steady_clock::time_point until{};  // when it is looked at again
    std::uint64_t term = 0;                         // kHere: of the claim; 0: none yet
    bool fed = false;                               // kHere: the feed knows that it is this server's
    std::vector<Done> waiting{};                    // kDeciding
  };

  void decide(const std::string& run);
  void settle(const std::string& run, Entry made, Answer answer);
  // From here on to note_gone(): the run's lock is held.
  // The run is in memory, and others may have had it since: what is here is given up then. True when it stays.
  [[nodiscard]] bool still_own(const std::string& run);
  [[nodiscard]] Answer decision(const std::string& run, Entry& entry);
  [[nodiscard]] Answer take(const std::string& run, Entry& entry);
  // As far as this server knew when it last had it: see note_gone().
  [[nodiscard]] bool is_own(const engine::RunRow& row) const;
  // What of it is shared was sent from here, or brought here, and the store still has it: one that was put back from a backup
  // may not.
  [[nodiscard]] bool is_newest(const history::SharedRun& there, const std::string& local_uid) const;
  // The term of the claim under which this server had what it has stored of a run; 0: none.
  [[nodiscard]] std::uint64_t term_here(const std::string& run_uid) const;
  // Another server claimed it, and not only in a copy of the shared history from before what this one knows.
  [[nodiscard]] bool is_others(const history::SharedRun& there, const std::string& local_uid) const;
  [[nodiscard]] bool is_stump(const history::SharedRun& there, const engine::RunRow& local) const;
  [[nodiscard]] Answer send_to(Peer& peer, const std::string& run, Entry& entry);
  // The heaviest server that is there, those first that have room; null: this one. `without_self`: null when there is no other.
  [[nodiscard]] Peer* home_of(const std::string& run, bool without_self) const;
  // The heaviest other one that has room; null: none has.
  [[nodiscard]] Peer* with_room(const std::string& run) const { return heaviest(run, false, true); }
  [[nodiscard]] Peer* heaviest(const std::string& run, bool or_self, bool with_room) const;
  [[nodiscard]] bool holds_named(const std::string& name) const;
  // What is shared of the run comes into the store, in place of all that it has of that name. Under the term of a claim it is a
  // takeover; under none (0) it answers questions, and its alerts are not this server's. False: it is not whole there. Throws
  // OwnStoreError where the store takes nothing now.
  [[nodiscard]] bool import(const history::SharedRun& there, std::uint64_t term);
  // The run is in memory here, and is that server's: its clients are sent there. Where that one is called as this one is, or is
  // none of its list, they go to whoever may know; kToBeDecided: told to come again. Returns when what was taken is stored.
  static constexpr char kToBeDecided[] = "";
  void yield(const std::string& run, const std::string& run_uid, const std::string& owner);
  // The run was given up for a server of which nobody here knows where it is, and which still has it.
  [[nodiscard]] bool is_with_stranger(const history::SharedRun& there);
  [[nodiscard]] bool claimed_since(const history::SharedRun& claim);
  // Of a run of before a restart; `look`: whether what is here of it is the newest is all that is asked. False: the shared
  // history can't be read now.
  [[nodiscard]] bool adopt(const engine::RunRow& row, bool look);
  // What is here of a run that was doubted is as it should be.
  void trust(const std::string& run_uid);
  // What is shared of a run of before takes the place of what is here. False: it does not now.
  bool bring_back(const std::string& run);
  void feed(const std::string& run, const std::string& run_uid);
  void note_gone(engine::RunRow row, const std::string& owner);
  // The run's alerts are another server's matter, and it is looked at later whether that one knows of all.
  void alerts_go(const std::string& run_uid);
  // The run goes on here with what the store has, and so do alerts that it was given up with. False: the store takes nothing
  // now.
  [[nodiscard]] bool take_back(const std::string& run_uid);
  using SteadyTime = std::chrono::steady_clock::time_point;
  // `due`: as it stands in given_up_. False: it can't be known now.
  [[nodiscard]] bool end_pages_of(const engine::RunRow& row, SteadyTime due);
  // Which of these alerts of a run that went are known where it is now, or are shared; absent: it can't be known now.
  [[nodiscard]] std::optional<std::set<std::string>> known_elsewhere(const engine::RunRow& row,
                                                                     const std::vector<std::string>& ids);

  // All that was staged is in the store; false when it takes too long.
  [[nodiscard]] bool flush();
  void find_own();
  void adopt_own();
  void take_orphans();
  void end_pages();
  [[nodiscard]] bool ended_here(const std::string& run_uid) const;
  void look_after();
  void look_after_runs();
  // Of runs that are over and have left memory nothing is kept: whoever comes for one is decided for anew.
  void forget_over();
  [[nodiscard]] bool is_quiet(const std::string& run) const;
  // Nothing of it changes any more, and nothing is left to share.
  [[nodiscard]] bool is_over(const std::optional<engine::RunRow>& row) const;
  void feed_new();
  void settle_with(Peer& peer);

  const Options options_;
  Peers& peers_;
  const Parts parts_;
  mutable OwnRoom room_;
  engine::Engine* engine_ = nullptr;  // set by start(); nothing is decided before

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  std::unordered_map<std::string, Entry> entries_;  // by the run's name
  std::vector<Peer*> came_back_;
  std::map<std::string, std::chrono::steady_clock::time_point> renewed_;   // by run_uid: since when renew() need not look
  std::map<std::string, std::chrono::steady_clock::time_point> given_up_;  // by run_uid: when its alerts are looked at
  std::vector<std::pair<std::string, history::SharedRun>> lost_;           // run_uid, who has it now
  // Runs that went to one of whom nobody here knows where it is, by name: row_version, and since when it stands still.
  std::map<std::string, std::pair<std::uint64_t, std::chrono::steady_clock::time_point>> strangers_;
  struct OfBefore {
    std::string run_uid;
    bool look = false;  // see adopt()
  };
  std::deque<OfBefore> of_before_;                // that are to be looked at; of the upkeep's thread
  std::vector<OfBefore> later_;                   // the same, not at once
  std::set<std::string> doubted_;                 // run_uids; of the upkeep's thread
  std::map<std::string, std::uint64_t> orphans_;  // run_uid and row_version; of the upkeep's thread
  std::chrono::steady_clock::time_point looked_for_orphans_{};
  std::chrono::steady_clock::time_point looked_for_over_{};
  RunLocks run_locks_;
  std::timed_mutex bring_mutex_;  // before a run's lock: of those that are brought for questions one at a time
  bool wake_ = false;
  bool unfed_ = false;  // some run that is here
  bool started_ = false;
  bool draining_ = false;
  bool stopping_ = false;
  std::atomic<std::uint64_t> moved_{0};
  std::atomic<std::uint64_t> taken_over_{0};
  std::atomic<std::uint64_t> yielded_{0};
  boost::asio::thread_pool deciders_{2};
  std::thread thread_;
};

}  // namespace scalewatch::fleet

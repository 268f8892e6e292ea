// From findings to alerts and to what is owed to each sink: the rows of one transaction.
//
// Holds every open alert, as the store has it. Findings change alerts on their run's strand, through stage(); silences, the
// clock and pages for people change them on the book's own thread. Either way the change, the trail that tells of it, the note
// of who was told and the outbox row are one transaction: after a restart nobody is told twice, and what was owed is told.
//
// A silence changes what people are told, never what is found: it spans runs, so it stays out of the domain's inputs and is a
// row of its own that the same commits make durable.
// Thread-safe. Life: construct, load(), ... start(), ... stop().
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/alerting/alert_life.h"
#include "server/alerting/book_options.h"
#include "server/alerting/pager.h"
#include "server/alerting/silences.h"
#include "server/alerting/sink_config.h"
#include "server/engine/ports/alert_outbox.h"
#include "server/engine/ports/alert_reader.h"
#include "server/engine/ports/clock.h"

namespace scalewatch::alerting {

class AlertBook : public engine::AlertOutbox {
 public:
  // As engine::Engine::submit. Must not block; on_durable may be empty.
  using Submit = std::function<void(engine::CommitBatch batch, std::function<void()> on_durable)>;
  // Told of alerts whose state the book itself changed, once that is durable. Any thread.
  using Changed = std::function<void(const v1::Alert&)>;

  // Sinks must have passed validate(); the clock must outlive this. `on_committed` is called for every durable batch, from the
  // committer thread; it must not block.
  AlertBook(const std::vector<SinkConfig>& sinks, BookOptions options, engine::Clock& clock,
            std::function<void(const engine::CommitBatch&)> on_committed);
  ~AlertBook() override;  // stops
  AlertBook(const AlertBook&) = delete;
  AlertBook& operator=(const AlertBook&) = delete;

  // Reads the open alerts and the silences, before anything is staged. The reader must outlive this: runs that move, or are
  // read back, have their alerts there. Throws StoreError.
  // `is_stored`: whether the store has the run of a uid; empty: it has all. Alerts of others resolve with the next turn():
  // nothing will end them otherwise.
  void load(engine::AlertReader& reader, const std::function<bool(const std::string& run_uid)>& is_stored = {});
  void start(Submit submit, Changed changed);
  // How far the server is behind, in seconds, any thread: alerts that change while it is a second or more say so in their
  // trail.
  void measure_lag(std::function<double()> seconds);
  // Other sinks and options from now on, also while it runs; thread-safe, never blocks long. Sinks must have passed validate().
  // Who was told what, digests that are due and how often alerts came back stay, by the sinks' names; open alerts are settled
  // anew at once, and a sink that is new is told of those that it takes. Alerts keep the runbook that they had until they
  // change.
  void reconfigure(const std::vector<SinkConfig>& sinks, BookOptions options);
  // Nothing is submitted after it.
  void stop();

  // A run comes from another server, whose alerts of it are in the store by now, and count in place of what is known here.
  // Returns what may not have been delivered there, to be committed: pages of the last minutes, under the keys that they had.
  // `heard_ms`: the run's newest report, by that server's clock. Throws StoreError.
  engine::CommitBatch take_run(const std::string& run_uid, std::int64_t heard_ms);
  // A run goes to another server, which tells of its alerts from now on. Returns what closes them here, to be committed; nobody
  // is told. Throws StoreError.
  engine::CommitBatch leave_run(const std::string& run_uid);
  // Alerts, by id, that leave_run() closed and whose end nobody was told of who was told of them here. Throws StoreError.
  std::vector<std::string> left_open(const std::string& run_uid);
  // Of those: no other server knows of these, and they are over. Returns what tells of that, to be committed. Throws
  // StoreError.
  engine::CommitBatch end_left(const std::vector<std::string>& ids);

  void stage(const engine::RunContext& run, const std::vector<domain::FindingEvent>& events,
             engine::CommitBatch& batch) override;
  void resolve_all(const engine::RunContext& run, const std::string& why, engine::CommitBatch& batch) override;
  std::vector<domain::Acknowledged> reconcile(const engine::RunContext& run, const std::vector<domain::Finding>& open,
                                              bool settled, engine::CommitBatch& batch) override;
  void committed(const engine::CommitBatch& batch) override;
  // A run that nobody has in memory is to be removed from the store: what is open of it resolves with the next turn(), and
  // whoever was told hears of that. False when nothing of it is open.
  bool end_run(const std::string& run_uid, const std::string& why);

  // ---- silences. `done` is called once it is durable, from any thread; also when this stops, then never.

  // Throws std::invalid_argument for what a request may not ask for, std::length_error when there are too many.
  using Silenced = std::function<void(const v1::Silence& silence, std::uint32_t alerts)>;
  void silence(const v1::CreateSilenceRequest& request, Silenced done);
  // Throws std::out_of_range for an unknown id, std::logic_error for one that has ended.
  void unsilence(const std::string& id, const std::string& who, std::function<void(const v1::Silence&)> done);
  [[nodiscard]] std::vector<v1::Silence> silences(bool ended);
  // What the two above submit, and throw; alerts follow with the next turn().
  v1::Silence stage_silence(const v1::CreateSilenceRequest& request, engine::CommitBatch& batch, std::uint32_t& alerts);
  v1::Silence stage_unsilence(const std::string& id, const std::string& who, engine::CommitBatch& batch);

  // Commits rows of others' making; `on_durable` is called once they are, from any thread, or never when this stops.
  void submit(engine::CommitBatch batch, std::function<void()> on_durable);
  [[nodiscard]] std::int64_t wall_ms() const { return clock_.wall_ms(); }

  // A stored alert whose bytes are no alert was met: it is logged once and counted.
  void note_unreadable(const std::string& id);
  // How many were met since start, at most 10,000.
  [[nodiscard]] std::size_t unreadable();

  // What the clock changes by now; what start()'s thread submits. Returns when it should be called next, steady milliseconds.
  std::int64_t turn(engine::CommitBatch& batch, std::vector<v1::Alert>& changed);

 private:
  [[nodiscard]] Now now() const { return {clock_.wall_ms(), clock_.steady_ms()}; }
  void stage_locked(const engine::RunContext& run, const std::vector<domain::FindingEvent>& events, Now at,
                    engine::CommitBatch& batch);
  // Ends these alerts of one run.
  void resolve_these(const std::string& run_uid, RunAlerts&& gone, const std::string& why, Now at, engine::CommitBatch& batch);
  // As it is stored, open again if it has ended there, and empty where it can't be read. Absent: there is none.
  std::optional<AlertEntry> read_open(const std::string& id, Now at);
  // These alerts of one run have resolved: whoever was told hears of it.
  void let_go(RunAlerts&& gone, Now at, engine::CommitBatch& batch);
  // After that, and after any other change of the run's.
  void follow_up(const std::string& run_uid, bool came_or_went, Now at);
  void load_fired(engine::AlertReader& reader);
  // The clock was set back: silences that had ended by it may hold again. As a start would load them.
  void load_silences_again(std::int64_t now_ms);
  // Resolves what end_run() and load() were about.
  void end_runs(Now at, engine::CommitBatch& batch, std::vector<v1::Alert>& changed);
  // Decides whether an alert that opens stays pending for a while.
  void hold_back(v1::Alert& alert, Now now);
  // Puts an open alert into its state; returns whether that changed it.
  bool settle(const std::vector<const v1::Alert*>& causes, AlertEntry& entry, Now now);
  static void stage_row(const AlertEntry& entry, engine::CommitBatch& batch);
  std::int64_t turn_locked(engine::CommitBatch& batch, std::vector<v1::Alert>& changed);
  v1::Silence silence_locked(const v1::CreateSilenceRequest& request, engine::CommitBatch& batch, std::uint32_t& alerts);
  v1::Silence unsilence_locked(const std::string& id, const std::string& who, engine::CommitBatch& batch);
  // Submits what the clock changes, and `batch` with it.
  void submit_locked(engine::CommitBatch batch, std::function<void()> on_durable);
  void loop();

  BookOptions options_;
  engine::Clock& clock_;
  const std::function<void(const engine::CommitBatch&)> on_committed_;
  engine::AlertReader* reader_ = nullptr;  // set by load()

  std::mutex mutex_;
  std::condition_variable wake_;
  std::unordered_map<std::string, RunAlerts> runs_;  // by run_uid
  Silences silences_;
  std::unordered_map<std::string, std::deque<std::int64_t>> fired_;  // by run, rule and subject: when; for damping
  Pager pager_;
  std::set<std::string> dirty_;                // runs whose alerts may have to be settled
  std::map<std::string, std::string> ending_;  // by run_uid: why all of it resolves
  std::int64_t settle_all_at_ = 0;             // Unix milliseconds: a silence or a hold ends
  std::int64_t turned_at_ = 0;                 // Unix milliseconds: the turn before
  std::int64_t next_ = 0;                      // steady: of the next turn
  bool stopping_ = false;
  Submit submit_;
  Changed changed_;
  std::function<double()> lag_;
  std::thread thread_;

  std::mutex unreadable_mutex_;
  std::set<std::string> unreadable_;  // ids
};

}  // namespace scalewatch::alerting

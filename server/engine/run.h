// One run on its strand: logs inputs, folds them, closes attempts, stages commits, and keeps what lists and metrics show.
//
// Not thread-safe: every call comes from the run's strand (or before it runs).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/domain/run_state.h"
#include "server/engine/attempt_closer.h"
#include "server/engine/commit_pipeline.h"
#include "server/engine/counters.h"
#include "server/engine/engine.h"
#include "server/engine/input_codec.h"
#include "server/engine/rank_slot.h"
#include "server/engine/readings.h"
#include "server/engine/rule_book.h"
#include "server/engine/shared_tables.h"
#include "server/engine/were_here.h"

namespace scalewatch::engine {

// What all runs share. Outlives them.
struct RunServices {
  const EngineOptions& options;
  const RuleBook& rules;
  AlertOutbox& outbox;
  Clock& clock;
  CommitPipeline& pipeline;
  Feed<RunEvent>& run_feed;
  Feed<v1::Alert>& alert_feed;
  Counters& counters;
  SharedTables& tables;
};

// A report as its stream hands it over.
struct TakenReport {
  ReportRow row;                 // less run, stream, pos
  domain::AttemptDigest digest;  // folded
  std::optional<v1::ClientStats> client;
  std::shared_ptr<const RankReading> reading;       // null: as before
  std::shared_ptr<const domain::Thresholds> rules;  // that the digest was made by
  std::optional<std::string> rank_state;            // RankState::save() after this report, when it was asked for
};

class Run {
 public:
  Run(RunServices services, std::string run_uid, std::string name, std::int64_t created_ms);

  // Folds what the store has of the run. What can't be read in it is left out and told: a row costs itself (its report is
  // logged as lost, cause store), a snapshot the time to fold the log from its beginning, a log the state of the segment.
  enum class Recovery : std::uint8_t {
    kWhole,    // from the newest snapshot on
    kLog,      // from the log alone
    kStreams,  // as if it began now, with the clients that are known
    kName,     // only name and segment are known
  };
  // Throws StoreError or std::runtime_error when that way is barred; the object is of no use then.
  void load(HistoryStore& store, const RunRow& row, Recovery how = Recovery::kWhole);

  // A client start or reconnect. Returns the slot and the answer, or a fault.
  struct Joined {
    std::shared_ptr<RankSlot> slot;
    v1::HelloAck ack;
    std::optional<v1::Fault> fault;
  };
  Joined join(const v1::Hello& hello, const std::shared_ptr<StreamImpl>& stream);

  // `on_durable` is called on the committer thread once this input survives a crash.
  using OnDurable = std::function<void()>;
  void take(RankSlot& slot, TakenReport report, OnDurable on_durable);
  void take_table(RankSlot& slot, std::uint32_t version, const v1::TableDelta& delta);
  void lose(RankSlot& slot, std::uint64_t first_seq, std::uint64_t last_seq, domain::LossCause cause, OnDurable on_durable);
  void leave(RankSlot& slot, const std::string& reason, OnDurable on_durable);
  void disconnected(RankSlot& slot, const StreamImpl* stream);

  // Logs that somebody is on an open finding; false when no open finding has that id.
  bool acknowledge(const std::string& finding_id, const std::string& who, const std::string& comment, OnDurable on_durable);

  // Takes the rules as they are configured now, if they are others: from here on, as a logged input.
  void take_rules();

  // Looks how far its clients' reports are replicated, and tells them.
  void note_replicated();

  // Of a run that is lost and was read back to see whether it is gone for good: since when its ranks are silent, as `row` has
  // it.
  void note_silence(const RunRow& row);

  // Timers: closing by time, liveness, snapshots, overviews. Cheap when nothing is due.
  void tick();
  // Stages a last snapshot, if anything changed since the newest.
  void stage_final();
  // Stages all that there is, with `instance` as the run's owner. Returns the streams that are still open.
  std::vector<std::shared_ptr<StreamImpl>> hand_over(const std::string& instance);

  [[nodiscard]] std::shared_ptr<const v1::GetRunResponse> overview() const;  // any thread
  [[nodiscard]] RunShown shown() const;                                      // any thread
  [[nodiscard]] const std::string& run_uid() const { return context_.run_uid; }
  [[nodiscard]] const std::string& name() const { return context_.name; }
  // Streams that may still call, or anything unsettled: such a run stays in memory.
  [[nodiscard]] bool busy() const;
  [[nodiscard]] std::int64_t last_input_ms() const { return last_input_ms_; }  // steady clock; any thread

 private:
  // One input on its way: everything that it caused goes into one transaction.
  struct Staged {
    CommitBatch batch;
    std::vector<domain::FindingEvent> findings;
    std::vector<v1::TailRunResponse> tail;
    OnDurable on_durable;
    bool all_alerts_changed = false;  // whoever watches alerts is told of all in the batch, not only of what findings did
  };

  // Logs an input and folds it.
  void log(domain::Input input, const RankSlot* slot, Staged& staged);
  void fold(const domain::Input& input, Staged& staged);
  // Folds into the state alone: what live running and recovery share.
  std::vector<domain::FindingEvent> fold_state(const domain::Input& input);
  void close_due(Staged& staged);
  void take_rules(Staged& staged);
  // The rank's own state takes the run's rules with its next report.
  void hand_rules(RankSlot& slot) const;
  void submit(Staged staged);
  [[nodiscard]] RunContext::Place place_of(domain::Rank rank) const;
  void stage_overview(CommitBatch& batch);
  void stage_snapshot(CommitBatch& batch);
  void stage_incarnation(const RankSlot& slot, CommitBatch& batch) const;
  // Reads how far the slot's reports are replicated; false when that is no farther than known.
  bool read_replicated(RankSlot& slot) const;
  // What time brings (run_timers.cc).
  void check_liveness();
  // Of a run that was read back: its open alerts are to be those of its open findings. What has none gets one at once; what is
  // open without a finding may still be found by reports that come, so it resolves only when nobody is behind any more.
  void reconcile_alerts(bool settled);
  void settle_alerts();
  // Tells the domain when the server falls behind, and when it has caught up.
  void check_lag();

  // Who is here (run_members.cc).
  // How long the slot's client said nothing that could be read, in milliseconds.
  [[nodiscard]] static std::int64_t silence_of(const RankSlot& slot, std::int64_t now);
  // Connected, and not so silent that only its socket may be left.
  [[nodiscard]] bool is_here(const RankSlot& slot, std::int64_t now) const;
  // Live ranks: joined this segment, not gone for good.
  [[nodiscard]] std::set<domain::Rank> live_ranks() const;
  // Whom closing waits for.
  [[nodiscard]] AttemptCloser::Patience patience() const;
  // After a restart: ranks of a job that had just begun, and that found no server to join, come as late as those that had.
  void await_joiners();
  // Why this client can't have the rank that `holder` had last.
  [[nodiscard]] std::optional<v1::Fault> refusal(const v1::Hello& hello, const RankSlot& holder) const;
  [[nodiscard]] bool opens_segment(const v1::Hello& hello, const RankSlot* previous) const;
  [[nodiscard]] domain::Attempt attempt_base(const v1::Hello& hello, const RankSlot* previous) const;
  [[nodiscard]] v1::RunStatus status() const;
  [[nodiscard]] v1::GetRunResponse make_overview() const;
  [[nodiscard]] RunReadings make_readings() const;
  // At most four times a second, unless it must be now.
  void publish_readings(bool now = false);
  void note_who_is_here();
  void note_summary(const ReportRow& row);

  // What ranks are asked to collect (run_collection.cc).
  void note_table(RankSlot& slot, std::shared_ptr<const domain::TensorTable> table);
  [[nodiscard]] domain::CollectionPlan plan() const;
  // Everything that the slot's client is asked for, noted as told.
  std::vector<v1::Directive> ask_all(RankSlot& slot, const std::vector<domain::CollectionRequest>& requests) const;
  // Tells every stream what changed for it since it was last told.
  void deliver_directives();

  // Recovery (run_recovery.cc). The index holds every incarnation that the log may speak of.
  using SlotIndex = std::map<std::pair<domain::Rank, Incarnation>, std::shared_ptr<RankSlot>>;
  [[nodiscard]] std::string save_state() const;
  // False when the snapshot is of another version: the log alone tells then.
  bool load_state(const std::string& bytes, const SlotIndex& index);
  SlotIndex load_slots(HistoryStore& store);
  void replay_report(const ReportRow& row, std::uint64_t folded_pos, const SlotIndex& index);
  void replay_input(const InputRow& row, std::uint64_t folded_pos, const SlotIndex& index);
  // The input that opened the segment, or brought the rank, may be among what can't be read.
  void enter_segment(std::uint32_t segment, domain::TimeMs now);
  void bring_rank(const std::shared_ptr<RankSlot>& slot, domain::TimeMs now);
  void start_over(const RunRow& row, const SlotIndex& index);
  // Logs what was found unreadable and was not told before.
  void tell_unreadable();
  // The engine's own reaction to an input, live and in recovery alike.
  void apply(const domain::Input& input, const std::optional<Incarnation>& incarnation);

  RunServices services_;
  RunContext context_;
  std::int64_t created_ms_ = 0;
  std::string instance_;  // whose it is, where several servers share the runs
  std::int64_t last_report_ms_ = 0;
  std::uint32_t segment_ = 0;
  domain::Severity worst_ = domain::Severity::kNone;  // of the segment's findings, open or resolved
  std::int64_t joiners_until_ms_ = 0;                 // steady clock: closing waits so long for ranks that have not joined yet
  std::uint64_t pos_ = 0;
  std::shared_ptr<const domain::Thresholds> rules_ = built_in_rules();  // that the log has
  std::uint64_t rules_version_ = 0;                                     // of the configured ones looked at last
  domain::RunState state_;
  AttemptCloser closer_;
  std::map<domain::Rank, std::shared_ptr<RankSlot>> slots_;  // newest incarnation of each rank, of any segment
  WereHere were_here_;
  std::vector<v1::SegmentSummary> segments_;                 // the newest kMaxSegments
  std::map<domain::Attempt, v1::AttemptSummary> summaries_;  // of open attempts, for the tail
  std::shared_ptr<const RankReading> restored_;              // of before this server began, for as long as no rank has told

  // What recovery could not read; empty afterwards.
  struct Unreadable {
    std::uint64_t rows = 0;                                // of all kinds
    std::map<RankSlot*, std::set<std::uint64_t>> reports;  // by seq, not yet told
    std::vector<std::pair<std::shared_ptr<RankSlot>, std::pair<std::uint64_t, std::uint64_t>>> ranges;
  } unreadable_;

  std::uint64_t snapshot_pos_ = 0;
  std::int64_t snapshot_ms_ = 0;  // steady clock
  bool plan_dirty_ = true;
  std::int64_t plan_ms_ = 0;  // steady clock: when directives were last looked at
  bool overview_dirty_ = false;
  std::int64_t overview_ms_ = 0;                // steady clock
  std::int64_t since_ms_ = 0;                   // steady clock: since when this server listens to the run
  std::int64_t reported_ms_ = 0;                // steady clock: newest report, or since_ms_
  std::int64_t lag_ms_ = 0;                     // steady clock: when the domain was last told; 0 = all was well then
  std::int64_t liveness_ms_ = 0;                // steady clock: when the domain was last told
  bool gone_told_ = false;                      // that the run is gone
  bool alerts_settled_ = true;                  // see settle_alerts()
  std::optional<domain::Attempt> settle_at_;    // once this attempt is closed, nothing of before can come any more
  std::atomic<std::int64_t> last_input_ms_{0};  // steady clock
  bool readings_dirty_ = false;
  std::int64_t readings_ms_ = 0;  // steady clock
  mutable std::mutex overview_mutex_;
  std::shared_ptr<const v1::GetRunResponse> overview_;
  std::shared_ptr<const RunReadings> readings_;  // a little older
};

}  // namespace scalewatch::engine

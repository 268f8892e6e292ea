// What the engine needs of a store: one atomic, durable commit, and enough reading to fold a run again.
//
// Runs are keyed by run_uid, streams by (run_uid, rank, incarnation). The log of a run is its reports and logged inputs
// together, ordered by `pos`, which the engine gives out per run from 1. State = fold(newest snapshot, log after it).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace scalewatch::engine {

using Incarnation = std::array<std::uint8_t, 16>;

// The store could not do it. The message names the file and the cause. `retryable` tells full disks and locks from the rest.
class StoreError : public std::runtime_error {
 public:
  StoreError(const std::string& what, bool can_retry) : std::runtime_error(what), retryable(can_retry) {}
  bool retryable;
};

// ---- rows -----------------------------------------------------------------------------------------------------------

// Insert or replace. Columns beside `overview` are what lists are sorted and filtered by.
struct RunRow {
  std::string run_uid;
  std::string name;  // unique
  std::int64_t created_ms = 0;
  std::int64_t last_report_ms = 0;  // 0 = none
  std::uint32_t segment = 0;
  std::int32_t status = 0;      // scalewatch.v1.RunStatus
  std::int32_t worst_open = 0;  // scalewatch.v1.Severity
  std::string overview;         // serialized scalewatch.v1.GetRunResponse without findings
};

// Insert or replace, keyed by (run_uid, rank, incarnation).
struct IncarnationRow {
  std::string run_uid;
  std::uint32_t rank = 0;
  Incarnation incarnation{};
  std::uint64_t order = 0;  // Hello.incarnation_order
  std::uint32_t segment = 1;
  std::uint64_t attempt_base = 0;  // run attempt = report attempt + base
  std::uint64_t durable_seq = 0;   // highest seq that is stored or announced lost
  bool left = false;               // said goodbye
  std::string hello;               // serialized scalewatch.v1.Hello
};

// Keyed by (run_uid, rank, incarnation, version).
struct TableRow {
  std::string run_uid;
  std::uint32_t rank = 0;
  Incarnation incarnation{};
  std::uint32_t version = 1;
  std::uint32_t first_id = 0;
  std::string delta;  // serialized scalewatch.v1.TableDelta
};

// One scaler observation taken out of a report, so that scaler history reads no tensor columns.
struct ScalerRow {
  std::uint32_t scaler = 0;
  std::optional<double> scale_before;
  std::optional<double> scale_after;
  std::optional<std::int64_t> growth_tracker;
  std::int32_t outcome = 0;  // 0 unknown, 1 applied, 2 skipped, 3 partial
};

// Keyed by (run_uid, rank, incarnation, seq): a repeat must not become a second row.
struct ReportRow {
  std::string run_uid;
  std::uint32_t rank = 0;
  Incarnation incarnation{};
  std::uint64_t seq = 0;
  std::uint64_t pos = 0;
  std::uint32_t segment = 1;
  std::uint64_t attempt = 0;  // of the segment
  std::int64_t step = 0;
  std::int64_t time_ms = 0;    // server's wall clock
  std::optional<double> loss;  // NaN and Inf are legal
  std::optional<double> lr;
  std::optional<double> grad_norm;
  bool retrospective = false;
  std::vector<ScalerRow> scalers;
  std::string payload;  // serialized scalewatch.v1.Report as received
};

// A logged input other than a report (see input_codec.h).
struct InputRow {
  std::string run_uid;
  std::uint64_t pos = 0;
  std::string payload;
};

// Replaces the run's older snapshots.
struct SnapshotRow {
  std::string run_uid;
  std::uint64_t pos = 0;  // folded up to here, inclusive
  std::string state;
};

// Insert, or replace by id what was not changed later.
struct AlertRow {
  std::string id;  // run_uid + "/" + finding id
  std::string run_uid;
  std::string rule;
  std::int32_t severity = 0;  // scalewatch.v1.Severity
  std::int32_t state = 0;     // scalewatch.v1.AlertState
  std::int64_t fired_ms = 0;
  std::int64_t changed_ms = 0;
  std::string alert;  // serialized scalewatch.v1.Alert without deliveries
};

// Insert or ignore by (key, sink): one delivery per firing and per resolve and sink, whatever is folded twice.
struct OutboxRow {
  std::string key;  // alert id + "/firing" or "/resolved" (or "/escalated:<severity>")
  std::string sink;
  std::string alert_id;
  std::string transition;
  std::int64_t created_ms = 0;
  std::string alert;  // serialized scalewatch.v1.Alert as it was then
};

// Insert or replace by id.
struct SilenceRow {
  std::string id;
  std::int64_t ends_ms = 0;
  std::string silence;  // serialized scalewatch.v1.Silence
};

// Outcome of a delivery.
struct OutboxUpdate {
  std::string key;
  std::string sink;
  bool delivered = false;
  std::uint32_t tries = 0;
  std::int64_t next_try_ms = 0;
  std::string last_error;
  std::int64_t given_up_ms{};  // server's clock: since then it is a dead letter; 0 = it is none
  bool again{};                // also when it was delivered: it is sent once more
};

// Dead letters are kept so long, and so many of them: the oldest go first.
inline constexpr std::int64_t kDeadLettersKeptMs = 30LL * 24 * 3'600'000;
inline constexpr std::size_t kMaxDeadLetters = 10'000;

// A page that its sink never took.
struct DeadLetterRow {
  std::int64_t id = 0;  // of the store; rises with the time at which it was queued
  OutboxRow row;
  std::uint32_t tries = 0;
  std::string last_error;
  std::int64_t given_up_ms = 0;
};

// One transaction. All of it survives kill -9 and power loss, or none of it.
struct CommitBatch {
  std::vector<RunRow> runs;
  std::vector<IncarnationRow> incarnations;
  std::vector<TableRow> tables;
  std::vector<ReportRow> reports;
  std::vector<InputRow> inputs;
  std::vector<SnapshotRow> snapshots;
  std::vector<AlertRow> alerts;
  std::vector<OutboxRow> outbox;
  std::vector<OutboxUpdate> outbox_updates;
  std::vector<SilenceRow> silences{};

  [[nodiscard]] bool empty() const {
    return runs.empty() && incarnations.empty() && tables.empty() && reports.empty() && inputs.empty() && snapshots.empty() &&
           alerts.empty() && outbox.empty() && outbox_updates.empty() && silences.empty();
  }
  [[nodiscard]] std::size_t bytes() const;  // rough size of the payloads
};

// ---- ports ----------------------------------------------------------------------------------------------------------

class HistoryStore {
 public:
  virtual ~HistoryStore() = default;

  // Called from one thread at a time (the engine's committer). Returns when durable; throws StoreError and changes nothing.
  virtual void commit(const CommitBatch& batch) = 0;
  // For when commit() refuses: takes alerts, outbox rows, their updates and silences (and nothing else), with room that is kept
  // for them. False when even that can't be stored; then nothing is changed. From the same thread as commit().
  virtual bool commit_alerts(const CommitBatch& /*batch*/) { return false; }

  // The rest is thread-safe and throws StoreError.
  virtual std::optional<RunRow> find_run(const std::string& name_or_uid) = 0;
  // By name alone: a run may be called as another one's run_uid, which find_run() gives then.
  virtual std::optional<RunRow> find_named(const std::string& name) = 0;
  virtual std::vector<RunRow> list_running(std::size_t limit) = 0;  // status RUNNING, newest report first
  virtual std::vector<RunRow> list_lost(std::size_t limit) = 0;     // LOST, something open; oldest report first
  virtual std::vector<IncarnationRow> incarnations(const std::string& run_uid) = 0;  // by rank, then order
  virtual std::vector<TableRow> tables(const std::string& run_uid, std::uint32_t rank, const Incarnation& incarnation) = 0;
  virtual std::optional<SnapshotRow> newest_snapshot(const std::string& run_uid) = 0;

  // An entry of a run's log; exactly one of the two is set.
  struct LogEntry {
    std::optional<ReportRow> report;
    std::optional<InputRow> input;
  };
  // Calls `visit` for every entry with pos > after_pos, in order of pos.
  virtual void read_log(const std::string& run_uid, std::uint64_t after_pos,
                        const std::function<void(const LogEntry&)>& visit) = 0;
};

// What delivery needs of the store. Thread-safe; throws StoreError.
class OutboxStore {
 public:
  struct Pending {
    OutboxRow row;
    std::uint32_t tries = 0;
    bool damaged{};  // its alert is not what was stored
  };
  virtual ~OutboxStore() = default;
  // Undelivered rows with next_try_ms <= now_ms, oldest first.
  virtual std::vector<Pending> due_outbox(std::int64_t now_ms, std::size_t limit) = 0;
  // When the next undelivered row is due; absent when there is none.
  virtual std::optional<std::int64_t> next_outbox_due_ms() = 0;
  // Alerts that are open (firing or acknowledged) now; for sinks that want to be reminded.
  virtual std::vector<AlertRow> open_alerts(std::size_t limit) = 0;
  // Dead letters given up at `since_ms` or later, by sink; sinks without any are left out.
  virtual std::map<std::string, std::uint64_t> count_dead_letters(std::int64_t since_ms) = 0;
};

}  // namespace scalewatch::engine

// The embedded history: one SQLite file, `history.db`, in the server's data folder (see schema.h for what is in it).
//
// One connection writes: commits first, then what runs behind them (see write_gate.h). Readers have their own read-only ones
// and never hold up a commit. A commit is durable when it returns (write-ahead log, synchronous=FULL) or has changed nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/ports/alert_reader.h"
#include "server/engine/ports/history_store.h"
#include "server/history/ballast.h"
#include "server/history/compactor.h"
#include "server/history/read_pool.h"
#include "server/history/retention.h"
#include "server/history/write_gate.h"

namespace scalewatch::history {

class CommitWriter;
class FolderLock;
class Reading;
class StoredRecords;
class StoreWatch;
struct StoredReport;
struct StoreLoss;

struct StoreOptions {
  std::size_t readers = 4;                                // connections for reading, opened when first needed
  std::chrono::milliseconds read_transaction{250};        // longest one; longer reads are paged
  std::size_t read_page_bytes = std::size_t{4} << 20;     // payload bytes of one page of the log
  std::uint64_t log_bytes = std::uint64_t{64} << 20;      // of the write-ahead log; beyond it readers are waited for once
  std::uint64_t ballast_bytes = std::uint64_t{32} << 20;  // kept free for alerts when the disk is full; 0 = none
  CompactionOptions compaction;
  RetentionOptions retention;
};

// Thread-safe, commit() included.
class SqliteStore : public engine::HistoryStore, public engine::OutboxStore, public engine::AlertReader {
 public:
  // Makes the folder and the file where they are missing. Throws StoreError with one line that names the path and the cause:
  // not writable, in use by another scalewatchd, not a database, of a newer schema.
  static std::unique_ptr<SqliteStore> open(const std::filesystem::path& directory, const StoreOptions& options = {});
  ~SqliteStore() override;

  // On a full disk refuses until there is room for more than alerts.
  void commit(const engine::CommitBatch& batch) override;
  bool commit_alerts(const engine::CommitBatch& batch) override;
  std::optional<engine::RunRow> find_run(const std::string& name_or_uid) override;
  std::optional<engine::RunRow> find_named(const std::string& name) override;
  std::vector<engine::RunRow> list_running(std::size_t limit) override;
  std::vector<engine::RunRow> list_lost(std::size_t limit) override;
  std::vector<engine::IncarnationRow> incarnations(const std::string& run_uid) override;
  std::vector<engine::TableRow> tables(const std::string& run_uid, std::uint32_t rank,
                                       const engine::Incarnation& incarnation) override;
  std::optional<engine::SnapshotRow> newest_snapshot(const std::string& run_uid) override;
  // Scaler observations that a newer incarnation of the rank replaced come as the newer ones. No transaction is open while
  // `visit` runs, so it may take its time and use the store. What is committed meanwhile may be visited too.
  void read_log(const std::string& run_uid, std::uint64_t after_pos,
                const std::function<void(const LogEntry&)>& visit) override;

  std::vector<Pending> due_outbox(std::int64_t now_ms, std::size_t limit) override;
  std::optional<std::int64_t> next_outbox_due_ms() override;
  std::vector<engine::AlertRow> open_alerts(std::size_t limit) override;
  std::map<std::string, std::uint64_t> count_dead_letters(std::int64_t since_ms) override;

  std::vector<engine::AlertRow> list(const Filter& filter, const std::optional<Cursor>& after, std::size_t limit) override;
  std::optional<engine::AlertRow> find(const std::string& id) override;
  std::vector<v1::DeliveryStatus> deliveries(const std::string& id) override;
  std::vector<engine::SilenceRow> silences(std::int64_t after_ms, std::size_t limit) override;
  std::vector<engine::AlertRow> fired_since(std::int64_t after_ms, std::size_t limit) override;
  std::vector<engine::DeadLetterRow> dead_letters(const DeadLetters& which, std::size_t limit) override;

  // The same until `visit` returns false. Reports that were thinned to summaries are left out, or come without a payload.
  enum class Thinned : std::uint8_t { kLeftOut, kAsRows };
  void read_log_while(const std::string& run_uid, std::uint64_t after_pos, Thinned thinned,
                      const std::function<bool(const LogEntry&)>& visit);

  // Called after every commit, on the committing thread. To be set before the first one.
  using Committed = std::function<void(const engine::CommitBatch&)>;
  void on_commit(Committed committed) { committed_ = std::move(committed); }

  // What was durable and is not here any more, as found when it was opened. Any thread.
  [[nodiscard]] const StoreLoss& loss() const;

  // Room that is kept for alerts on a full disk, now and as configured, bytes. Any thread.
  struct Kept {
    std::uint64_t now = 0;
    std::uint64_t wanted = 0;
  };
  [[nodiscard]] Kept ballast() const { return {ballast_.kept(), options_.ballast_bytes}; }

  // Names of runs that have ended and whose newest report is of `since_ms` or later, newest first.
  std::vector<std::string> ended_since(std::int64_t since_ms, std::size_t limit);

  // Removes a run with all that is of it but its outbox, for what another server shares of it. It must not be in the engine's
  // memory.
  void remove_run(const std::string& run_uid);

  // For the other readers of this room.
  ReadPool& readers() { return readers_; }
  Compactor& compactor() { return *compactor_; }
  Retention& retention() { return *retention_; }
  // Runs `work` in a transaction of the write connection once it is the turn of its class. A background transaction is durable
  // with the next commit, not before.
  void write(WriteClass which, const std::function<void(Connection&)>& work);

 private:
  SqliteStore(std::unique_ptr<FolderLock> lock, std::unique_ptr<Connection> writer, std::unique_ptr<StoreWatch> watch,
              const std::string& path, const StoreOptions& options);
  void write_batch(const engine::CommitBatch& batch);
  // A write-ahead log begins anew by itself when nobody reads: while readers follow each other without a gap it would only
  // grow.
  void bound_log();
  // A page of the log into `page`; false when it reached the end.
  bool read_log_page(Reading& reading, std::int64_t run, std::uint64_t after_pos, std::vector<LogEntry>& page,
                     std::vector<StoredReport>& keys);
  // The payload of a report that is only in chunks, empty when they are damaged; false when it was thinned to summaries.
  bool rebuild(Reading& reading, StoredRecords& records, const StoredReport& key,
               std::map<std::int64_t, std::vector<std::uint64_t>>& tables, engine::ReportRow& row);

  const StoreOptions options_;
  std::unique_ptr<FolderLock> lock_;
  WriteGate gate_;
  std::unique_ptr<Connection> writer_;
  std::unique_ptr<StoreWatch> watch_;
  Ballast ballast_;  // behind the gate
  std::unique_ptr<CommitWriter> rows_;
  std::chrono::steady_clock::time_point log_again_;  // behind the gate
  ReadPool readers_;
  // What the background thread does when nothing waits to be compacted.
  Compactor::Idle idle_work(bool everything);
  Committed committed_;
  std::atomic<bool> run_removed_{false};  // since the last idle work

  std::unique_ptr<Retention> retention_;
  std::unique_ptr<Compactor> compactor_;  // last: its thread uses the others
};

}  // namespace scalewatch::history

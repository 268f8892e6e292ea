#include "server/history/sqlite_store.h"

#include <map>
#include <utility>

#include "server/history/api_error.h"
#include "server/history/commit_writer.h"
#include "server/history/folder_lock.h"
#include "server/history/reading.h"
#include "server/history/report_reader.h"
#include "server/history/row_check.h"
#include "server/history/rows.h"
#include "server/history/scaler_reader.h"
#include "server/history/schema.h"
#include "server/history/seal.h"
#include "server/history/store_watch.h"
#include "server/history/stored_records.h"

namespace scalewatch::history {

namespace {

constexpr std::int64_t kLogPageRows = 512;

// Puts the observations back into the reports of a page.
class ScalerFill {
 public:
  ScalerFill(Connection& connection, std::int64_t run) : connection_(connection), run_(run) {}

  void fill(engine::ReportRow& row) {
    if (row.retrospective) return;
    auto numbers = numbers_.find(row.segment);
    if (numbers == numbers_.end()) {
      numbers = numbers_.emplace(row.segment, scaler_numbers(connection_, run_, row.segment)).first;
    }
    for (const std::uint32_t scaler : numbers->second) {
      Query query(connection_,
                  "SELECT scale_before, scale_after, growth_tracker, outcome, " SCALEWATCH_SCALER_CHECKED
                  " FROM scaler_rows "
                  "WHERE run = ? AND segment = ? AND scaler = ? AND attempt = ? AND rank = ?",
                  run_, row.segment, scaler, row.attempt, row.rank);
      if (!query.step() || !row_is_whole(query, 4)) continue;
      auto& out = row.scalers.emplace_back();
      out.scaler = scaler;
      out.scale_before = query.number(0);
      out.scale_after = query.number(1);
      if (!query.is_null(2)) out.growth_tracker = query.i64(2);
      out.outcome = query.i32(3);
    }
  }

 private:
  Connection& connection_;
  const std::int64_t run_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> numbers_;  // by segment
};

}  // namespace

std::unique_ptr<SqliteStore> SqliteStore::open(const std::filesystem::path& directory, const StoreOptions& options) {
  auto lock = std::make_unique<FolderLock>(directory);
  const std::filesystem::path file = directory / "history.db";
  const std::string path = file.string();
  std::unique_ptr<Connection> writer;
  std::unique_ptr<StoreWatch> watch;
  try {
    const auto mark = read_mark(directory / "history.mark");
    set_foreign_log_aside(file, mark);
    writer = std::make_unique<Connection>(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    // SQLite opens what it may not write for reading, without a word.
    if (writer->read_only()) throw engine::StoreError(path + ": not writable", false);
    prepare_schema(*writer, path);
    writer->execute(("PRAGMA journal_size_limit = " + std::to_string(options.log_bytes)).c_str());  // once it begins anew
    watch = std::make_unique<StoreWatch>(*writer, file, mark);
  } catch (const engine::StoreError& error) {
    throw engine::StoreError(std::string("cannot open the history: ") + error.what(), error.retryable);
  }
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(lock), std::move(writer), std::move(watch), path, options));
}

SqliteStore::SqliteStore(std::unique_ptr<FolderLock> lock, std::unique_ptr<Connection> writer,
                         std::unique_ptr<StoreWatch> watch, const std::string& path, const StoreOptions& options)
    : options_(options),
      lock_(std::move(lock)),
      writer_(std::move(writer)),
      watch_(std::move(watch)),
      ballast_(std::filesystem::path(path).parent_path() / "ballast", options.ballast_bytes),
      rows_(std::make_unique<CommitWriter>(*writer_)),
      readers_(path, options.readers, options.read_transaction),
      retention_(std::make_unique<Retention>(
          path, options.retention, [this](WriteClass which, const auto& work) { write(which, work); },
          [this] {
            rows_->forget();
            run_removed_ = true;
          })),
      compactor_(std::make_unique<Compactor>(
          path, options.compaction, [this](WriteClass which, const auto& work) { write(which, work); },
          [this](bool everything) { return idle_work(everything); })) {}

SqliteStore::~SqliteStore() = default;

const StoreLoss& SqliteStore::loss() const {
  return watch_->loss();
}

void SqliteStore::commit(const engine::CommitBatch& batch) {
  if (batch.empty()) return;
  std::map<std::int64_t, std::size_t> stored;
  {
    const WriteGate::Turn turn(gate_, WriteClass::kCommit);
    if (ballast_.given() && !ballast_.take_back()) {
      throw engine::StoreError(writer_->path() + ": the disk is full: what room is left is kept for alerts", true);
    }
    write_batch(batch);
    stored = rows_->stored();
  }
  compactor_->reported(stored);
  if (committed_) committed_(batch);
}

bool SqliteStore::commit_alerts(const engine::CommitBatch& batch) {
  const WriteGate::Turn turn(gate_, WriteClass::kCommit);
  for (bool more = true; more; more = ballast_.give()) {
    try {
      write_batch(batch);
      return true;
    } catch (const engine::StoreError& error) {
      if (!error.retryable) return false;
    }
  }
  return false;
}

void SqliteStore::write_batch(const engine::CommitBatch& batch) {
  try {
    writer_->execute("BEGIN IMMEDIATE");
    rows_->write(batch);
    watch_->count(*writer_);
    writer_->execute("COMMIT");
    watch_->counted();
  } catch (...) {
    writer_->rollback();
    rows_->forget();
    throw;
  }
}

void SqliteStore::write(WriteClass which, const std::function<void(Connection&)>& work) {
  const WriteGate::Turn turn(gate_, which);
  try {
    // What is lost with the power is done again; the next commit's flush covers this one.
    writer_->execute("PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE");
    work(*writer_);
    writer_->execute("COMMIT; PRAGMA synchronous = FULL");
  } catch (...) {
    writer_->rollback();
    writer_->execute("PRAGMA synchronous = FULL");
    throw;
  }
  bound_log();
}

void SqliteStore::bound_log() {
  constexpr std::chrono::seconds kPause{10};  // after one that read for longer than it should
  std::error_code error;
  const auto size = std::filesystem::file_size(writer_->path() + "-wal", error);
  const auto now = std::chrono::steady_clock::now();
  if (error || size <= options_.log_bytes || now < log_again_) return;
  log_again_ = now + kPause;
  // Readers that begin once all of the log is in the file do without it: those that are there are waited for.
  const auto patience = options_.read_transaction + std::chrono::milliseconds(50);
  const auto usual = writer_->scalar("PRAGMA busy_timeout");
  sqlite3_busy_timeout(writer_->handle(), static_cast<int>(patience.count()));
  try {
    if (writer_->scalar("PRAGMA wal_checkpoint(RESTART)") == 0) log_again_ = now;
  } catch (const engine::StoreError&) {
    // The disk: commits tell of it.
  }
  sqlite3_busy_timeout(writer_->handle(), static_cast<int>(usual));
}

Compactor::Idle SqliteStore::idle_work(bool everything) {
  // New rows use free pages: these stay, unless everything is to go.
  constexpr std::int64_t kKeptPages = 256;
  const auto now_of = [](auto clock) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(decltype(clock)::now().time_since_epoch()).count();
  };
  {
    const WriteGate::Turn turn(gate_, WriteClass::kRetention);
    bound_log();
  }
  const bool did = retention_->step(now_of(std::chrono::system_clock()), now_of(std::chrono::steady_clock())) ||
                   retention_->shrink(everything ? 0 : kKeptPages);
  if (run_removed_.exchange(false)) return Compactor::Idle::kRunGone;
  return did ? Compactor::Idle::kSomething : Compactor::Idle::kNothing;
}

void SqliteStore::remove_run(const std::string& run_uid) {
  std::int64_t run = 0;
  {
    ReadPool::Lease lease(readers_);
    const auto stored = find_stored_run(*lease, run_uid);
    if (!stored || stored->row.run_uid != run_uid) return;
    run = stored->id;
  }
  Retention remover(
      writer_->path(), {}, [this](WriteClass which, const auto& work) { write(which, work); },
      [this] {
        rows_->forget();
        run_removed_ = true;
      });
  while (remover.remove_run(run, run_uid)) {
  }
}

std::optional<engine::RunRow> SqliteStore::find_run(const std::string& name_or_uid) {
  ReadPool::Lease lease(readers_);
  auto run = find_stored_run(*lease, name_or_uid);
  if (!run) return std::nullopt;
  return std::move(run->row);
}

std::optional<engine::RunRow> SqliteStore::find_named(const std::string& name) {
  ReadPool::Lease lease(readers_);
  Query query(*lease, select_runs("WHERE name = ?"), name);
  if (!query.step()) return std::nullopt;
  StoredRun run;
  read_run(query, run);
  return std::move(run.row);
}

std::vector<engine::RunRow> SqliteStore::list_lost(std::size_t limit) {
  ReadPool::Lease lease(readers_, ReadPool::Limit::kNone);
  Query query(*lease, select_runs("WHERE status = ? AND worst_open > 0 ORDER BY last_report_ms, id LIMIT ?"),
              static_cast<int>(v1::RUN_STATUS_LOST), limit);
  std::vector<engine::RunRow> rows;
  for (StoredRun run; query.step(); rows.push_back(run.row)) read_run(query, run);
  return rows;
}

std::vector<engine::RunRow> SqliteStore::list_running(std::size_t limit) {
  constexpr int kRunning = 1;  // v1.RUN_STATUS_RUNNING
  ReadPool::Lease lease(readers_, ReadPool::Limit::kNone);
  Query query(*lease, select_runs("WHERE status = ? ORDER BY last_report_ms DESC, id LIMIT ?"), kRunning, limit);
  std::vector<engine::RunRow> rows;
  for (StoredRun run; query.step(); rows.push_back(run.row)) read_run(query, run);
  return rows;
}

std::vector<std::string> SqliteStore::ended_since(std::int64_t since_ms, std::size_t limit) {
  constexpr int kRunning = 1;  // v1.RUN_STATUS_RUNNING
  ReadPool::Lease lease(readers_, ReadPool::Limit::kNone);
  Query query(*lease, "SELECT name FROM runs WHERE status <> ? AND last_report_ms >= ? ORDER BY last_report_ms DESC LIMIT ?",
              kRunning, since_ms, limit);
  std::vector<std::string> names;
  while (query.step()) names.push_back(query.bytes(0));
  return names;
}

std::vector<engine::IncarnationRow> SqliteStore::incarnations(const std::string& run_uid) {
  ReadPool::Lease lease(readers_, ReadPool::Limit::kNone);
  Query query(*lease,
              "SELECT rank, incarnation, ord, segment, attempt_base, durable_seq, has_left, hello FROM streams "
              "WHERE run = (SELECT id FROM runs WHERE uid = ?) ORDER BY rank, ord, id",
              run_uid);
  std::vector<engine::IncarnationRow> rows;
  while (query.step()) {
    auto& row = rows.emplace_back();
    row.run_uid = run_uid;
    row.rank = query.u32(0);
    row.incarnation = incarnation_from(query.bytes(1));
    row.order = query.u64(2);
    row.segment = query.u32(3);
    row.attempt_base = query.u64(4);
    row.durable_seq = query.u64(5);
    row.left = query.i64(6) != 0;
    row.hello = unsealed(query, 7).value_or("");
  }
  return rows;
}

std::vector<engine::TableRow> SqliteStore::tables(const std::string& run_uid, std::uint32_t rank,
                                                  const engine::Incarnation& incarnation) {
  ReadPool::Lease lease(readers_, ReadPool::Limit::kNone);
  Query query(*lease,
              "SELECT version, first_id, delta FROM table_deltas WHERE stream = (SELECT id FROM streams WHERE "
              "run = (SELECT id FROM runs WHERE uid = ?) AND rank = ? AND incarnation = ?) ORDER BY version",
              run_uid, rank, bytes_of(incarnation));
  std::vector<engine::TableRow> rows;
  while (query.step())
    rows.push_back({run_uid, rank, incarnation, query.u32(0), query.u32(1), std::string(unsealed(query, 2).value_or(""))});
  return rows;
}

std::optional<engine::SnapshotRow> SqliteStore::newest_snapshot(const std::string& run_uid) {
  ReadPool::Lease lease(readers_, ReadPool::Limit::kNone);
  Query query(*lease, "SELECT pos, state FROM snapshots WHERE run = (SELECT id FROM runs WHERE uid = ?)", run_uid);
  if (!query.step()) return std::nullopt;
  return engine::SnapshotRow{run_uid, query.u64(0), std::string(unsealed(query, 1).value_or(""))};
}

void SqliteStore::read_log(const std::string& run_uid, std::uint64_t after_pos,
                           const std::function<void(const LogEntry&)>& visit) {
  read_log_while(run_uid, after_pos, Thinned::kLeftOut, [&](const LogEntry& entry) {
    visit(entry);
    return true;
  });
}

void SqliteStore::read_log_while(const std::string& run_uid, std::uint64_t after_pos, Thinned thinned,
                                 const std::function<bool(const LogEntry&)>& visit) {
  std::int64_t run = 0;
  {
    ReadPool::Lease lease(readers_);
    const auto stored = find_stored_run(*lease, run_uid);
    if (!stored) return;
    run = stored->id;
  }
  Reading reading(readers_);
  StoredRecords records(reading);
  std::map<std::int64_t, std::vector<std::uint64_t>> tables;  // numel by tensor id, of streams whose reports are rebuilt
  std::vector<LogEntry> page;
  std::vector<StoredReport> keys;
  for (bool more = true; more;) {
    page.clear();
    keys.clear();
    more = read_log_page(reading, run, after_pos, page, keys);
    std::size_t next_key = 0;
    for (auto& entry : page) {
      if (entry.report) {
        entry.report->run_uid = run_uid;
        after_pos = entry.report->pos;
        const StoredReport& key = keys[next_key++];
        const bool whole = key.stream == 0 || rebuild(reading, records, key, tables, *entry.report);
        if (!whole && thinned == Thinned::kLeftOut) continue;
      }
      if (entry.input) {
        entry.input->run_uid = run_uid;
        after_pos = entry.input->pos;
      }
      reading.pause();
      if (!visit(entry)) return;
    }
  }
}

bool SqliteStore::rebuild(Reading& reading, StoredRecords& records, const StoredReport& key,
                          std::map<std::int64_t, std::vector<std::uint64_t>>& tables, engine::ReportRow& row) {
  try {
    auto table = tables.find(key.stream);
    if (table == tables.end()) {
      std::vector<std::uint64_t> numels;
      for (auto& tensor : stored_table(reading.connection(), key.stream)) numels.push_back(tensor.numel);
      table = tables.emplace(key.stream, std::move(numels)).first;
    }
    const auto numel = [&](std::uint32_t id) {
      if (id >= table->second.size()) throw ApiError{{engine::Status::kInternal, "the tensor table is damaged"}};
      return table->second[id];
    };
    const auto report = records.whole(key, numel);
    if (!report) return false;
    row.payload = report->SerializeAsString();
  } catch (const ApiError&) {
    row.payload.clear();  // damaged: what is known of it is its row
  }
  return true;
}

// Reports that are only in chunks come without a payload, with a key to rebuild them by; keys of others are empty.
bool SqliteStore::read_log_page(Reading& reading, std::int64_t run, std::uint64_t after_pos, std::vector<LogEntry>& page,
                                std::vector<StoredReport>& keys) {
  Connection& connection = reading.connection();
  // Two cursors that are merged by hand: each is one walk along an index, whatever the planner thinks. Either may fill the page
  // alone, and gives one row more then, by which a page is told from the end.
  Query reports(connection,
                "SELECT r.pos, r.rank, s.incarnation, r.seq, r.segment, r.attempt, r.step, r.time_ms, r.retrospective, r.loss, "
                "r.lr, r.grad_norm, p.payload, r.id, r.stream, r.run, r.stream, r.rank, r.seq, r.pos, r.segment, r.attempt, "
                "r.step, r.time_ms, r.retrospective, r.loss, r.lr, r.grad_norm, r.crc FROM reports r INDEXED BY reports_by_pos "
                "JOIN streams s ON s.id = r.stream LEFT JOIN payloads p ON p.id = r.id "
                "WHERE r.run = ? AND r.pos > ? ORDER BY r.pos LIMIT ?",
                run, after_pos, kLogPageRows + 1);
  Query inputs(connection, "SELECT pos, payload FROM inputs WHERE run = ? AND pos > ? ORDER BY pos LIMIT ?", run, after_pos,
               kLogPageRows + 1);
  bool has_report = reports.step();
  bool has_input = inputs.step();
  ScalerFill scalers(connection, run);
  std::size_t bytes = 0;
  for (std::int64_t rows = 0; has_report || has_input; ++rows) {
    if (rows == kLogPageRows || bytes >= options_.read_page_bytes || (rows > 0 && reading.page_over())) return true;
    LogEntry& entry = page.emplace_back();
    if (has_report && (!has_input || reports.u64(0) < inputs.u64(0))) {
      auto& row = entry.report.emplace();
      row.pos = reports.u64(0);
      row.rank = reports.u32(1);
      row.incarnation = incarnation_from(reports.bytes(2));
      row.seq = reports.u64(3);
      row.segment = reports.u32(4);
      row.attempt = reports.u64(5);
      row.step = reports.i64(6);
      row.time_ms = reports.i64(7);
      row.retrospective = reports.i64(8) != 0;
      row.loss = reports.number(9);
      row.lr = reports.number(10);
      row.grad_norm = reports.number(11);
      StoredReport& key = keys.emplace_back();
      const bool whole = row_is_whole(reports, 15);
      if (!whole) {
        row.loss = row.lr = row.grad_norm = std::nullopt;  // damaged: without a payload it is told as such
      } else if (reports.is_null(12)) {
        key.id = reports.i64(13);
        key.stream = reports.i64(14);
        key.rank = row.rank;
        key.attempt = row.attempt;
      } else {
        row.payload = unsealed(reports, 12).value_or("");  // empty: damaged
      }
      if (whole) scalers.fill(row);
      bytes += row.payload.size();
      has_report = reports.step();
    } else {
      auto& row = entry.input.emplace();
      row.pos = inputs.u64(0);
      row.payload = inputs.bytes(1);
      bytes += row.payload.size();
      has_input = inputs.step();
    }
  }
  return false;
}

}  // namespace scalewatch::history

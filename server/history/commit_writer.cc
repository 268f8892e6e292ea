#include "server/history/commit_writer.h"

#include <algorithm>

#include "server/history/row_check.h"
#include "server/history/rows.h"
#include "server/history/scaler_reader.h"
#include "server/history/seal.h"

namespace scalewatch::history {

namespace {

constexpr std::int64_t kSilencesKeptMs = 400LL * 24 * 3'600'000;
constexpr std::size_t kMaxCached = 200'000;  // ids of each kind; a full cache starts anew

std::int64_t only_id(Query& query) {
  const std::int64_t id = query.step() ? query.i64(0) : 0;
  query.run();
  return id;
}

}  // namespace

void CommitWriter::write(const engine::CommitBatch& batch) {
  stored_.clear();
  // Runs and incarnations come first, for the rest refers to them.
  for (const auto& row : batch.runs) put(row);
  for (const auto& row : batch.incarnations) put(row);
  for (const auto& row : batch.tables) put(row);
  for (const auto& row : batch.reports) put(row);
  for (const auto& row : batch.inputs) put(row);
  for (const auto& row : batch.snapshots) put(row);
  for (const auto& row : batch.alerts) put(row);
  for (const auto& row : batch.outbox) put(row);
  for (const auto& update : batch.outbox_updates) put(update);
  bound_dead_letters(batch);
  for (const auto& row : batch.silences) put(row);
}

void CommitWriter::forget() {
  runs_.clear();
  streams_.clear();
}

std::int64_t CommitWriter::next_id(std::int64_t& newest, const char* select_newest) {
  if (newest < 0) newest = connection_.scalar(select_newest);
  return newest + 1;
}

std::int64_t CommitWriter::run_id(const std::string& uid) {
  if (const auto found = runs_.find(uid); found != runs_.end()) return found->second;
  Query query(connection_, "SELECT id FROM runs WHERE uid = ?", uid);
  const std::int64_t id = only_id(query);
  if (id == 0) throw engine::StoreError(connection_.path() + ": a row of run " + uid + ", which is not stored", false);
  if (runs_.size() >= kMaxCached) runs_.clear();
  runs_.emplace(uid, id);
  return id;
}

std::int64_t CommitWriter::stream_id(std::int64_t run, std::uint32_t rank, const engine::Incarnation& incarnation) {
  const StreamKey key{run, rank, incarnation};
  if (const auto found = streams_.find(key); found != streams_.end()) return found->second;
  Query query(connection_, "SELECT id FROM streams WHERE run = ? AND rank = ? AND incarnation = ?", run, rank,
              bytes_of(incarnation));
  const std::int64_t id = only_id(query);
  if (id == 0)
    throw engine::StoreError(
        connection_.path() + ": a row of an incarnation of rank " + std::to_string(rank) + ", which is not stored", false);
  if (streams_.size() >= kMaxCached) streams_.clear();
  streams_.emplace(key, id);
  return id;
}

void CommitWriter::put(const engine::RunRow& row) {
  const std::int64_t id = next_id(newest_run_, "SELECT max(id) FROM runs");
  Query(connection_,
        "INSERT INTO runs (id, uid, name, created_ms, last_report_ms, segment, status, worst_open, overview) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uid) DO UPDATE SET name = excluded.name, "
        "created_ms = excluded.created_ms, last_report_ms = excluded.last_report_ms, segment = excluded.segment, "
        "status = excluded.status, worst_open = excluded.worst_open, overview = excluded.overview",
        id, row.run_uid, row.name, row.created_ms, row.last_report_ms, row.segment, row.status, row.worst_open,
        Blob{sealed(row.overview)})
      .run();
  if (connection_.last_rowid() == id) newest_run_ = id;  // else it was there
}

void CommitWriter::put(const engine::IncarnationRow& row) {
  const std::int64_t id = next_id(newest_stream_, "SELECT max(id) FROM streams");
  Query(connection_,
        "INSERT INTO streams (id, run, rank, incarnation, ord, segment, attempt_base, durable_seq, has_left, hello) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, rank, incarnation) DO UPDATE SET ord = excluded.ord, "
        "segment = excluded.segment, attempt_base = excluded.attempt_base, "
        "durable_seq = max(durable_seq, excluded.durable_seq), has_left = excluded.has_left, hello = excluded.hello",
        id, run_id(row.run_uid), row.rank, bytes_of(row.incarnation), row.order, row.segment, row.attempt_base, row.durable_seq,
        row.left, Blob{sealed(row.hello)})
      .run();
  if (connection_.last_rowid() == id) newest_stream_ = id;  // else it was there
}

void CommitWriter::put(const engine::TableRow& row) {
  Query(connection_,
        "INSERT INTO table_deltas (stream, version, first_id, delta) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (stream, version) DO NOTHING",
        stream_id(run_id(row.run_uid), row.rank, row.incarnation), row.version, row.first_id, Blob{sealed(row.delta)})
      .run();
}

void CommitWriter::put(const engine::ReportRow& row) {
  const std::int64_t run = run_id(row.run_uid);
  const std::int64_t stream = stream_id(run, row.rank, row.incarnation);
  const std::int64_t id = next_id(newest_report_, "SELECT max(id) FROM reports");
  // Only a repeat of (stream, seq) is ignored: a pos that is taken is a mistake and must not drop a report in silence.
  Query(connection_,
        "INSERT INTO reports (id, " SCALEWATCH_REPORT_CHECKED
        ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream, seq) DO NOTHING",
        id, run, stream, row.rank, row.seq, row.pos, row.segment, row.attempt, row.step, row.time_ms, row.retrospective,
        row.loss, row.lr, row.grad_norm,
        row_check(run, stream, row.rank, row.seq, row.pos, row.segment, row.attempt, row.step, row.time_ms, row.retrospective,
                  row.loss, row.lr, row.grad_norm))
      .run();
  if (connection_.changes() == 0) return;
  newest_report_ = id;
  Query(connection_, "INSERT INTO payloads (id, payload) VALUES (?, ?)", id, Blob{sealed(row.payload)}).run();
  if (row.retrospective) return;
  ++stored_[stream];
  for (const auto& scaler : row.scalers) {
    // What was summed up of it is no longer true; mostly there is none.
    Query(connection_, "DELETE FROM scaler_sums WHERE run = ? AND segment = ? AND scaler = ? AND bucket = ?", run, row.segment,
          scaler.scaler, row.attempt / kScalerBucket)
        .run();
    Query(connection_,
          "INSERT OR REPLACE INTO scaler_rows (" SCALEWATCH_SCALER_CHECKED ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          run, row.segment, scaler.scaler, row.attempt, row.rank, row.step, row.time_ms, scaler.scale_before,
          scaler.scale_after, scaler.growth_tracker, scaler.outcome, row.loss,
          row_check(run, row.segment, scaler.scaler, row.attempt, row.rank, row.step, row.time_ms, scaler.scale_before,
                    scaler.scale_after, scaler.growth_tracker, scaler.outcome, row.loss))
        .run();
  }
}

void CommitWriter::put(const engine::InputRow& row) {
  Query(connection_, "INSERT INTO inputs (run, pos, payload) VALUES (?, ?, ?) ON CONFLICT (run, pos) DO NOTHING",
        run_id(row.run_uid), row.pos, Blob{row.payload})
      .run();
}

void CommitWriter::put(const engine::SnapshotRow& row) {
  Query(connection_,
        "INSERT INTO snapshots (run, pos, state) VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE SET pos = excluded.pos, "
        "state = excluded.state WHERE excluded.pos >= pos",
        run_id(row.run_uid), row.pos, Blob{sealed(row.state)})
      .run();
}

void CommitWriter::put(const engine::AlertRow& row) {
  Query(connection_,
        // What runs and the clock change at the same moment may come in either order: the later change stays.
        "INSERT INTO alerts (id, run_uid, rule, severity, state, fired_ms, changed_ms, alert) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET run_uid = excluded.run_uid, rule = excluded.rule, severity = excluded.severity, "
        "state = excluded.state, fired_ms = excluded.fired_ms, changed_ms = excluded.changed_ms, alert = excluded.alert "
        "WHERE excluded.changed_ms >= changed_ms",
        row.id, row.run_uid, row.rule, row.severity, row.state, row.fired_ms, row.changed_ms, Blob{row.alert})
      .run();
}

void CommitWriter::put(const engine::OutboxRow& row) {
  Query(connection_,
        "INSERT INTO outbox (key, sink, alert_id, transition, created_ms, alert, crc) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (key, sink) DO NOTHING",
        row.key, row.sink, row.alert_id, row.transition, row.created_ms, Blob{row.alert}, outbox_crc(row))
      .run();
}

void CommitWriter::put(const engine::SilenceRow& row) {
  // None lasts longer than a year: these ended long ago.
  Query(connection_, "DELETE FROM silences WHERE ends_ms < ?", row.ends_ms - kSilencesKeptMs).run();
  Query(connection_, "INSERT OR REPLACE INTO silences (id, ends_ms, silence) VALUES (?, ?, ?)", row.id, row.ends_ms,
        Blob{row.silence})
      .run();
}

void CommitWriter::put(const engine::OutboxUpdate& update) {
  // A row that was delivered stays so, whatever comes late.
  Query(connection_,
        "UPDATE outbox SET delivered = ?, tries = ?, next_try_ms = ?, last_error = ?, given_up_ms = ? "
        "WHERE key = ? AND sink = ? AND (delivered = 0 OR ?)",
        update.delivered, update.tries, update.next_try_ms, update.last_error, update.given_up_ms, update.key, update.sink,
        update.again)
      .run();
}

void CommitWriter::bound_dead_letters(const engine::CommitBatch& batch) {
  if (std::none_of(batch.outbox_updates.begin(), batch.outbox_updates.end(), [](const auto& u) { return u.given_up_ms != 0; }))
    return;
  // The rows stay for the alert's own list of deliveries; only the list of dead letters forgets them. By number: whoever reads
  // it leaves out what is old (kDeadLettersKeptMs), and the clock of one moment must not forget for good.
  Query(connection_,
        "UPDATE outbox SET given_up_ms = 0 WHERE id IN (SELECT id FROM outbox WHERE given_up_ms > 0 "
        "ORDER BY given_up_ms DESC, id DESC LIMIT -1 OFFSET ?)",
        std::uint64_t{engine::kMaxDeadLetters})
      .run();
}

}  // namespace scalewatch::history

#include "server/history/clickhouse/writer.h"

#include <algorithm>
#include <future>
#include <set>

#include "server/engine/snapshot.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kMaxAlerts = 1000;        // of a run, sent again at each look
constexpr std::size_t kWorthHalving = 100'000;  // records

std::string_view bytes_of(const engine::Incarnation& incarnation) {
  return {reinterpret_cast<const char*>(incarnation.data()), incarnation.size()};
}

}  // namespace

void Writer::write(Batch& batch, std::int64_t now_ms) {
  for (const Batch::Part& part : batch.parts()) {
    const Known& before = known(part.run_uid, part.term);
    if (!before.streams_sent || part.ranks_changed) write_streams(part.run_uid, next_version(part.run_uid, part.term, now_ms));
    // Before the log counts: a run that is taken over is found by its name, with the alerts that its log caused, and the newest
    // row tells which copy of it is the newest.
    if (!before.row_sent) {
      if (const auto row = store_.find_run(part.run_uid); row && row->run_uid == part.run_uid) {
        write_row(*row, next_version(part.run_uid, part.term, now_ms));
      }
    }
    write_alerts(part.run_uid);
  }
  write_rows(batch);
  Block marks = batch.marks(instance_, now_ms);
  connection_.insert("batches", marks);
}

// Halves of the records and all else side by side: ClickHouse packs and writes an insert on one core. The same batch always is
// cut at the same place.
void Writer::write_rows(Batch& batch) {
  const std::size_t rows = batch.records.rows();
  const std::size_t half = rows < kWorthHalving ? rows : rows / 2;
  const auto part = [&](Connection& connection, std::size_t first, std::size_t count) {
    return std::async(std::launch::async,
                      [&batch, &connection, first, count] { connection.insert("records", batch.records, first, count); });
  };
  auto first = part(beside_[0], 0, half);
  auto second = part(beside_[1], half, rows - half);
  connection_.insert("scores", batch.scores);
  connection_.insert("non_finite", batch.non_finite);
  connection_.insert("scalers", batch.scalers);
  connection_.insert("payloads", batch.payloads);
  connection_.insert("inputs", batch.inputs);
  connection_.insert("reports", batch.reports);
  first.get();
  second.get();
}

void Writer::cancel() {
  connection_.cancel();
  for (Connection& connection : beside_) connection.cancel();
}

bool Writer::take_lost() {
  bool lost = connection_.take_lost();
  for (Connection& connection : beside_) lost = connection.take_lost() || lost;
  return lost;
}

void Writer::write_streams(const std::string& run_uid, std::uint64_t version) {
  Known& known = known_[run_uid];
  const std::uint64_t run = run_key(run_uid);
  Block streams(columns_of("streams"));
  Block deltas(columns_of("table_deltas"));
  Block tensors(columns_of("tensors"));
  std::set<std::uint64_t> named;
  auto sent = known.deltas;
  for (const auto& row : store_.incarnations(run_uid)) {
    const std::uint64_t stream = stream_key(row.incarnation);
    add_row(streams, run, row.rank, stream, version, Fixed{bytes_of(row.incarnation)}, row.order, row.segment, row.attempt_base,
            static_cast<std::uint8_t>(row.left), row.hello);
    std::uint32_t& newest = sent[{row.rank, row.incarnation}];
    for (const auto& table : store_.tables(run_uid, row.rank, row.incarnation)) {
      if (table.version <= newest) continue;
      newest = table.version;
      add_row(deltas, run, row.rank, stream, table.version, table.first_id, table.delta);
      v1::TableDelta delta;
      if (!delta.ParseFromString(table.delta)) continue;
      for (const auto& info : delta.infos()) {
        const std::uint64_t key = tensor_key(info.name(), info.role());
        if (!named.insert(key).second) continue;
        add_row(tensors, run, key, info.name(), static_cast<std::uint8_t>(info.role()), info.numel());
      }
    }
  }
  connection_.insert("streams", streams);
  connection_.insert("table_deltas", deltas);
  connection_.insert("tensors", tensors);
  known.deltas = std::move(sent);
  known.streams_sent = true;
}

bool Writer::write_run(const std::string& run_uid, std::uint64_t term, std::int64_t now_ms, std::uint64_t sent_pos,
                       bool with_snapshot) {
  const auto row = store_.find_run(run_uid);
  if (!row || row->run_uid != run_uid) return true;
  Known& sent = known(run_uid, term);
  const std::uint64_t version = next_version(run_uid, term, now_ms);
  const std::uint64_t run = run_key(run_uid);
  // A table may have grown without a word in the log.
  write_streams(run_uid, version);
  write_row(*row, version);
  write_alerts(run_uid);
  if (!with_snapshot) return true;
  const auto snapshot = store_.newest_snapshot(run_uid);
  if (!snapshot || snapshot->pos <= sent.snapshot_pos || snapshot->state.empty()) return true;
  if (snapshot->pos > sent_pos) return false;
  Block snapshots(columns_of("snapshots"));
  add_row(snapshots, run, version, snapshot->pos, engine::log_needed_after(snapshot->state), snapshot->state);
  connection_.insert("snapshots", snapshots);
  sent.snapshot_pos = snapshot->pos;
  return true;
}

void Writer::write_row(const engine::RunRow& row, std::uint64_t version) {
  Block runs(columns_of("runs"));
  add_row(runs, run_key(row.run_uid), version, row.run_uid, row.name, row.created_ms, row.last_report_ms, row.segment,
          row.status, row.worst_open, row.overview);
  connection_.insert("runs", runs);
  known_[row.run_uid].row_sent = true;
}

// What changed since it was sent. By id: what an owner of before sends is of an earlier term, whatever its clock said; a change
// under this term goes above what is there of it, for clocks are put back, too.
void Writer::write_alerts(const std::string& run_uid) {
  Known& known = known_[run_uid];
  if (!known.alert_versions) {
    known.alert_versions.emplace();
    const std::string answer =
        connection_.query("SELECT id, max(changed_ms) FROM alerts WHERE run = " + std::to_string(run_key(run_uid)) +
                          " AND term = " + std::to_string(known.term) + " GROUP BY id FORMAT RowBinary");
    for (RowReader rows(answer); !rows.done();) {
      const std::string id(rows.text());
      (*known.alert_versions)[id] = rows.i64();
    }
  }
  Block alerts(columns_of("alerts"));
  std::map<std::string, std::int64_t> sent;
  for (const auto& alert : store_.list({run_uid, {}, 0}, std::nullopt, kMaxAlerts)) {
    sent[alert.id] = alert.changed_ms;
    const auto before = known.alerts.find(alert.id);
    if (before != known.alerts.end() && before->second == alert.changed_ms) continue;
    const auto [there, is_new] = known.alert_versions->try_emplace(alert.id, alert.changed_ms);
    if (!is_new) there->second = std::max(there->second + 1, alert.changed_ms);
    add_row(alerts, run_key(run_uid), alert.id, known.term, there->second, alert.run_uid, alert.rule, alert.severity,
            alert.state, alert.fired_ms, alert.alert);
  }
  if (sent == known.alerts) return;
  connection_.insert("alerts", alerts);
  known.alerts = std::move(sent);
}

// A clock may have been put back since, here and where the server before this one ran.
std::uint64_t Writer::next_version(const std::string& run_uid, std::uint64_t term, std::int64_t now_ms) {
  std::optional<std::uint64_t>& newest = known(run_uid, term).version;
  if (!newest) {
    const std::string of_run =
        " WHERE run = " + std::to_string(run_key(run_uid)) + " AND version < " + std::to_string(row_version(term + 1, 0));
    std::string all;
    for (const char* table : {"runs", "streams", "snapshots"}) {
      all += (all.empty() ? "" : " UNION ALL ") + ("SELECT max(version) AS newest FROM " + std::string(table)) + of_run;
    }
    const std::string answer = connection_.query("SELECT max(newest) FROM (" + all + ") FORMAT RowBinary");
    newest = RowReader(answer).u64();
  }
  newest = std::max(*newest + 1, row_version(term, now_ms));
  return *newest;
}

Writer::Known& Writer::known(const std::string& run_uid, std::uint64_t term) {
  Known& found = known_[run_uid];
  if (found.term < term) {
    found = {};
    found.term = term;
  }
  return found;
}

}  // namespace scalewatch::clickhouse

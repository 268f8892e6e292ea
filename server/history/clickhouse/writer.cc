#include "server/history/clickhouse/writer.h"

#include <algorithm>
#include <set>

#include "server/engine/snapshot.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kMaxAlerts = 1000;  // of a run, sent again at each look

std::string_view bytes_of(const engine::Incarnation& incarnation) {
  return {reinterpret_cast<const char*>(incarnation.data()), incarnation.size()};
}

}  // namespace

const std::vector<TensorKey>& Writer::tensors(const std::string& run_uid, std::uint32_t rank,
                                              const engine::Incarnation& incarnation, std::size_t at_least) {
  auto& table = known_[run_uid].tensors[{rank, incarnation}];
  if (table.size() >= at_least) return table;
  table.clear();
  for (const auto& row : store_.tables(run_uid, rank, incarnation)) {
    v1::TableDelta delta;
    if (!delta.ParseFromString(row.delta)) break;
    table.resize(
        std::max<std::size_t>(table.size(), std::size_t{delta.first_id()} + static_cast<std::size_t>(delta.infos_size())));
    std::size_t id = delta.first_id();
    for (const auto& info : delta.infos()) table[id++] = {tensor_key(info.name(), info.role()), info.numel()};
  }
  return table;
}

void Writer::write(Batch& batch, std::int64_t now_ms) {
  for (const Batch::Part& part : batch.parts()) {
    const bool known = known_[part.run_uid].streams_sent;
    if (!known || part.ranks_changed) write_streams(part.run_uid, row_version(part.term, now_ms));
    // Before the log counts: a run that is taken over is found by its name, with the alerts that its log caused.
    // Under each term once, so that the newest row tells which copy of a run is the newest.
    if (term_of(known_[part.run_uid].row_version) < part.term || known_[part.run_uid].row_version == 0) {
      if (const auto row = store_.find_run(part.run_uid); row && row->run_uid == part.run_uid) {
        write_row(*row, row_version(part.term, now_ms));
      }
    }
    write_alerts(part.run_uid);
  }
  connection_.insert("records", batch.records);
  connection_.insert("scalers", batch.scalers);
  connection_.insert("payloads", batch.payloads);
  connection_.insert("inputs", batch.inputs);
  connection_.insert("reports", batch.reports);
  Block marks = batch.marks(instance_, now_ms);
  connection_.insert("batches", marks);
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

void Writer::write_run(const std::string& run_uid, std::uint64_t version, std::uint64_t sent_pos, bool with_snapshot) {
  const auto row = store_.find_run(run_uid);
  if (!row || row->run_uid != run_uid) return;
  Known& known = known_[run_uid];
  const std::uint64_t run = run_key(run_uid);
  // A table may have grown without a word in the log.
  write_streams(run_uid, version);
  write_row(*row, version);
  write_alerts(run_uid);
  if (!with_snapshot) return;
  const auto snapshot = store_.newest_snapshot(run_uid);
  if (!snapshot || snapshot->pos > sent_pos || snapshot->pos <= known.snapshot_pos || snapshot->state.empty()) return;
  Block snapshots(columns_of("snapshots"));
  add_row(snapshots, run, version, snapshot->pos, engine::log_needed_after(snapshot->state), snapshot->state);
  connection_.insert("snapshots", snapshots);
  known.snapshot_pos = snapshot->pos;
}

void Writer::write_row(const engine::RunRow& row, std::uint64_t version) {
  Block runs(columns_of("runs"));
  add_row(runs, run_key(row.run_uid), version, row.run_uid, row.name, row.created_ms, row.last_report_ms, row.segment,
          row.status, row.worst_open, row.overview);
  connection_.insert("runs", runs);
  known_[row.run_uid].row_version = version;
}

// What changed since it was sent. By id: clocks of servers differ, so the newest time says nothing of another alert.
void Writer::write_alerts(const std::string& run_uid) {
  Known& known = known_[run_uid];
  Block alerts(columns_of("alerts"));
  std::map<std::string, std::int64_t> sent;
  for (const auto& alert : store_.list({run_uid, {}, 0}, std::nullopt, kMaxAlerts)) {
    sent[alert.id] = alert.changed_ms;
    const auto before = known.alerts.find(alert.id);
    if (before != known.alerts.end() && before->second == alert.changed_ms) continue;
    add_row(alerts, run_key(run_uid), alert.id, alert.changed_ms, alert.run_uid, alert.rule, alert.severity, alert.state,
            alert.fired_ms, alert.alert);
  }
  if (sent == known.alerts) return;
  connection_.insert("alerts", alerts);
  known.alerts = std::move(sent);
}

void Writer::forget(const std::string& run_uid) {
  known_.erase(run_uid);
}

}  // namespace scalewatch::clickhouse

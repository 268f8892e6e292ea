#include "server/history/rows.h"

#include <algorithm>

#include "server/engine/crc.h"
#include "server/history/seal.h"

namespace scalewatch::history {

namespace {
constexpr std::string_view kNoMessage("\xff", 1);  // can't be parsed
}  // namespace

std::string select_runs(std::string_view clauses) {
  std::string sql = "SELECT id, uid, name, created_ms, last_report_ms, segment, status, worst_open, overview FROM runs ";
  return sql.append(clauses);
}

void read_run(const Query& query, StoredRun& run) {
  run.id = query.i64(0);
  run.row.run_uid = query.view(1);
  run.row.name = query.view(2);
  run.row.created_ms = query.i64(3);
  run.row.last_report_ms = query.i64(4);
  run.row.segment = query.u32(5);
  run.row.status = query.i32(6);
  run.row.worst_open = query.i32(7);
  run.row.overview = unsealed(query, 8).value_or(kNoMessage);
}

std::optional<StoredRun> find_stored_run(Connection& connection, const std::string& name_or_uid) {
  for (const char* where : {"WHERE uid = ?", "WHERE name = ?"}) {
    Query query(connection, select_runs(where), name_or_uid);
    if (!query.step()) continue;
    StoredRun run;
    read_run(query, run);
    return run;
  }
  return std::nullopt;
}

Blob bytes_of(const engine::Incarnation& incarnation) {
  return {std::string_view(reinterpret_cast<const char*>(incarnation.data()), incarnation.size())};
}

engine::Incarnation incarnation_from(const std::string& bytes) {
  engine::Incarnation incarnation{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), incarnation.size()), incarnation.begin());
  return incarnation;
}

std::string select_alerts(std::string_view clauses) {
  std::string sql = "SELECT id, run_uid, rule, severity, state, fired_ms, changed_ms, alert FROM alerts ";
  return sql.append(clauses);
}

engine::AlertRow read_alert(const Query& query) {
  return {query.bytes(0), query.bytes(1), query.bytes(2), query.i32(3),
          query.i32(4),   query.i64(5),   query.i64(6),   query.bytes(7)};
}

std::int64_t outbox_crc(const engine::OutboxRow& row) {
  std::uint32_t crc = 0;
  for (const std::string* part : {&row.key, &row.sink, &row.alert}) crc = engine::crc32_of(*part, crc);
  return crc;
}

}  // namespace scalewatch::history

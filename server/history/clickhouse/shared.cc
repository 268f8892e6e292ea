#include "server/history/clickhouse/shared.h"

#include <algorithm>

#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/run_log.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::chrono::seconds kHangs{3};
constexpr std::chrono::milliseconds kMoment{50};

std::string run_is(const std::string& run_uid) {
  return "run = " + std::to_string(run_key(run_uid));
}

}  // namespace

void Shared::prepare() {
  keep_prepared(connection_, options_, connection_.take_lost(), prepared_);
}

std::unique_lock<std::timed_mutex> Shared::turn() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  // At least a moment: whoever has just got the connection may not have said so yet.
  while (!lock && !lock.try_lock_until(std::max(begun_.load() + kHangs, SteadyClock::now() + kMoment))) {
    if (SteadyClock::now() >= begun_.load() + kHangs)
      throw engine::StoreError("ClickHouse has not answered an earlier question yet", true);
  }
  begun_ = SteadyClock::now();
  return lock;
}

std::string Shared::query(const std::string& sql) {
  const auto lock = turn();
  prepare();
  return connection_.query(sql + " FORMAT RowBinary");
}

std::string Shared::query_whole(const std::string& table, const std::string& sql) {
  const auto lock = turn();
  prepare();
  return connection_.query_whole({table}, sql + " FORMAT RowBinary");
}

std::vector<history::SharedRun> Shared::runs_where(const std::string& where, const std::string& one_of, const std::string& then,
                                                   std::size_t limit, Of of) {
  const std::string sql =
      "SELECT run_uid, name, created_ms, last_report_ms, segment, status, worst_open, overview, version FROM (SELECT * FROM "
      "runs "
      "WHERE " +
      where + " ORDER BY version DESC LIMIT 1 BY " + one_of + ") WHERE " + then +
      " ORDER BY last_report_ms DESC, run_uid LIMIT " + std::to_string(limit);
  const std::string answer = of == Of::kAll ? query_whole("runs", sql) : query(sql);
  std::vector<history::SharedRun> runs;
  for (RowReader rows(answer); !rows.done();) {
    engine::RunRow& row = runs.emplace_back().row;
    row.run_uid = rows.text();
    row.name = rows.text();
    row.created_ms = rows.i64();
    row.last_report_ms = rows.i64();
    row.segment = rows.u32();
    row.status = rows.get<std::int32_t>();
    row.worst_open = rows.get<std::int32_t>();
    row.overview = rows.text();
    runs.back().row_version = rows.u64();
    runs.back().row_term = term_of(runs.back().row_version);
  }
  const auto lock = turn();
  std::vector<std::uint64_t> names;
  for (const auto& run : runs) names.push_back(name_key(run.row.name));
  const auto claims = newest_claims(connection_, names, of);
  for (auto& run : runs) {
    const auto found = claims.find(name_key(run.row.name));
    if (found == claims.end()) continue;
    run.instance = found->second.instance;
    run.term = found->second.term;
    run.claimed_ms = found->second.claimed_ms;
  }
  return runs;
}

std::vector<history::SharedRun> Shared::list_runs(std::size_t limit, Which which) {
  constexpr int kRunning = 1;  // v1.RUN_STATUS_RUNNING
  return runs_where("1", "name", which == Which::kAll ? "1" : "status = " + std::to_string(kRunning), limit, Of::kOne);
}

std::optional<history::SharedRun> Shared::find_by(const std::string& column, const std::string& value) {
  auto runs = runs_where(column + " = " + quoted(value), column, "1", 1, Of::kAll);
  return runs.empty() ? std::nullopt : std::optional(std::move(runs.front()));
}

std::optional<history::SharedRun> Shared::find_run(const std::string& name_or_uid) {
  auto run = find_by("run_uid", name_or_uid);
  return run ? std::move(run) : find_by("name", name_or_uid);
}

std::uint64_t Shared::last_place(const std::string& run_uid, std::uint64_t term) {
  const std::string answer = query_whole(
      "batches", "SELECT max(to_pos) FROM batches WHERE " + run_is(run_uid) + " AND term = " + std::to_string(term));
  return RowReader(answer).u64();
}

namespace {

constexpr const char* kAlertColumns = "id, run_uid, rule, severity, state, fired_ms, changed_ms, alert";

std::vector<engine::AlertRow> read_alerts(const std::string& answer) {
  std::vector<engine::AlertRow> alerts;
  for (RowReader rows(answer); !rows.done();) {
    engine::AlertRow& alert = alerts.emplace_back();
    alert.id = rows.text();
    alert.run_uid = rows.text();
    alert.rule = rows.text();
    alert.severity = rows.get<std::int32_t>();
    alert.state = rows.get<std::int32_t>();
    alert.fired_ms = rows.i64();
    alert.changed_ms = rows.i64();
    alert.alert = rows.text();
  }
  return alerts;
}

std::string select_alerts(const std::string& where) {
  return std::string("SELECT ") + kAlertColumns + " FROM (SELECT * FROM alerts WHERE " + where +
         " ORDER BY term DESC, changed_ms DESC LIMIT 1 BY run, id)";
}

}  // namespace

std::vector<engine::AlertRow> Shared::open_alerts(std::size_t limit) {
  return read_alerts(query(select_alerts("1") + " WHERE state IN (2, 3) ORDER BY severity DESC, fired_ms DESC, id LIMIT " +
                           std::to_string(limit)));
}

std::set<std::string> Shared::alert_ids(const std::string& run_uid) {
  const std::string answer = query_whole("alerts", "SELECT DISTINCT id FROM alerts WHERE " + run_is(run_uid));
  std::set<std::string> ids;
  for (RowReader rows(answer); !rows.done();) ids.emplace(rows.text());
  return ids;
}

std::uint64_t Shared::claim(const std::string& name, const std::string& instance, std::uint64_t known) {
  const auto lock = turn();
  prepare();
  return claim_name(connection_, name, instance, known, clock_.wall_ms());
}

std::map<std::uint32_t, std::uint64_t> Shared::floors(const std::string& run_uid) {
  const std::string answer = query_whole(
      "reports", "SELECT segment, max(attempt) FROM reports WHERE " + run_is(run_uid) + " GROUP BY segment ORDER BY segment");
  std::map<std::uint32_t, std::uint64_t> floors;
  for (RowReader rows(answer); !rows.done();) {
    const std::uint32_t segment = rows.u32();
    floors[segment] = rows.u64() + 1;
  }
  return floors;
}

bool Shared::load_run(const std::string& run_uid, const std::function<void(engine::CommitBatch&&)>& take) {
  const auto run = find_run(run_uid);
  if (!run || run->row.run_uid != run_uid) return false;
  engine::CommitBatch newest;
  RunLog([this](const std::string& table, const std::string& sql) { return query_whole(table, sql); }, run_uid)
      .read(run->row, take, newest);
  newest.alerts = read_alerts(query_whole("alerts", select_alerts(run_is(run_uid))));
  if (!newest.empty()) take(std::move(newest));
  return true;
}

}  // namespace scalewatch::clickhouse

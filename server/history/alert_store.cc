// The part of the store that alerting reads: the outbox and the alerts.
#include <algorithm>
#include <limits>
#include <string>

#include "server/history/rows.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::history {

namespace {
constexpr int kMaxDeliveries = 1000;

// key, sink, alert_id, transition, created_ms and alert, from `column` on.
engine::OutboxRow read_outbox(const Query& query, int column) {
  return {query.bytes(column),     query.bytes(column + 1), query.bytes(column + 2),
          query.bytes(column + 3), query.i64(column + 4),   query.bytes(column + 5)};
}

}  // namespace

std::vector<engine::OutboxStore::Pending> SqliteStore::due_outbox(std::int64_t now_ms, std::size_t limit) {
  ReadPool::Lease lease(readers_);
  Query query(*lease,
              "SELECT key, sink, alert_id, transition, created_ms, alert, tries, crc FROM outbox "
              "WHERE delivered = 0 AND next_try_ms <= ? ORDER BY id LIMIT ?",
              now_ms, limit);
  std::vector<Pending> rows;
  while (query.step()) {
    Pending& pending = rows.emplace_back();
    pending.row = read_outbox(query, 0);
    pending.tries = query.u32(6);
    // Rows of older servers have none.
    pending.damaged = !query.is_null(7) && query.i64(7) != outbox_crc(pending.row);
  }
  return rows;
}

std::map<std::string, std::uint64_t> SqliteStore::count_dead_letters(std::int64_t since_ms) {
  ReadPool::Lease lease(readers_);
  Query query(*lease, "SELECT sink, count(*) FROM outbox WHERE given_up_ms > 0 AND given_up_ms >= ? GROUP BY sink", since_ms);
  std::map<std::string, std::uint64_t> counts;
  while (query.step()) counts[query.bytes(0)] = query.u64(1);
  return counts;
}

std::vector<engine::DeadLetterRow> SqliteStore::dead_letters(const DeadLetters& which, std::size_t limit) {
  ReadPool::Lease lease(readers_);
  const DeadLetters::After after = which.after.value_or(
      DeadLetters::After{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()});
  Query query(*lease,
              "SELECT key, sink, alert_id, transition, created_ms, alert, tries, last_error, given_up_ms, id FROM outbox "
              "WHERE given_up_ms > 0 AND given_up_ms >= ?1 AND (given_up_ms, id) < (?2, ?3) AND (?4 = '' OR sink = ?4) "
              "AND (?5 = '' OR key = ?5) ORDER BY given_up_ms DESC, id DESC LIMIT ?6",
              which.since_ms, after.given_up_ms, after.id, which.sink, which.key, limit);
  std::vector<engine::DeadLetterRow> rows;
  while (query.step()) {
    rows.push_back({query.i64(9), read_outbox(query, 0), query.u32(6), query.bytes(7), query.i64(8)});
  }
  return rows;
}

std::vector<engine::AlertRow> SqliteStore::fired_since(std::int64_t after_ms, std::size_t limit) {
  std::vector<engine::AlertRow> rows;
  ReadPool::Lease lease(readers_);
  // By severity, as the index has them.
  for (const std::int32_t severity : {v1::SEVERITY_CRITICAL, v1::SEVERITY_WARNING, v1::SEVERITY_INFO}) {
    Query query(*lease, select_alerts("WHERE severity = ? AND fired_ms > ? ORDER BY fired_ms DESC LIMIT ?"), severity, after_ms,
                limit);
    while (query.step()) rows.push_back(read_alert(query));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.fired_ms > b.fired_ms; });
  if (rows.size() > limit) rows.resize(limit);
  return rows;
}

std::optional<std::int64_t> SqliteStore::next_outbox_due_ms() {
  ReadPool::Lease lease(readers_);
  Query query(*lease, "SELECT next_try_ms FROM outbox WHERE delivered = 0 ORDER BY next_try_ms LIMIT 1");
  if (!query.step()) return std::nullopt;
  return query.i64(0);
}

std::vector<engine::AlertRow> SqliteStore::open_alerts(std::size_t limit) {
  ReadPool::Lease lease(readers_);
  // 2 and 3: v1.ALERT_STATE_FIRING and _ACKNOWLEDGED, as in the index.
  Query query(*lease, select_alerts("WHERE state IN (2, 3) ORDER BY fired_ms LIMIT ?"), limit);
  std::vector<engine::AlertRow> rows;
  while (query.step()) rows.push_back(read_alert(query));
  return rows;
}

std::vector<engine::AlertRow> list_alerts(Connection& connection, const engine::AlertReader::Filter& filter,
                                          const std::optional<engine::AlertReader::Cursor>& after, std::size_t limit) {
  std::int64_t states = 0;  // a bit each, so that one statement serves every choice
  for (const std::int32_t state : filter.states) {
    if (state >= 0 && state < 63) states |= std::int64_t{1} << state;
  }
  std::string where = filter.states.empty() ? "WHERE severity >= ?1 AND ?2 = 0" : "WHERE severity >= ?1 AND (?2 >> state) & 1";
  if (after) where += " AND (severity < ?3 OR (severity = ?3 AND (fired_ms < ?4 OR (fired_ms = ?4 AND id > ?5))))";
  if (filter.run_uid) where += " AND run_uid = ?6";
  where += " ORDER BY severity DESC, fired_ms DESC, id LIMIT ?7";
  const auto from = after.value_or(engine::AlertReader::Cursor{});
  const std::string run_uid = filter.run_uid.value_or("");
  Query query(connection, select_alerts(where), filter.min_severity, states, from.severity, from.fired_ms, from.id, run_uid,
              limit);
  std::vector<engine::AlertRow> rows;
  while (query.step()) rows.push_back(read_alert(query));
  return rows;
}

std::vector<engine::AlertRow> SqliteStore::list(const Filter& filter, const std::optional<Cursor>& after, std::size_t limit) {
  ReadPool::Lease lease(readers_);
  return list_alerts(*lease, filter, after, limit);
}

std::optional<engine::AlertRow> SqliteStore::find(const std::string& id) {
  ReadPool::Lease lease(readers_);
  Query query(*lease, select_alerts("WHERE id = ?"), id);
  if (!query.step()) return std::nullopt;
  return read_alert(query);
}

std::vector<v1::DeliveryStatus> SqliteStore::deliveries(const std::string& id) {
  ReadPool::Lease lease(readers_);
  Query query(*lease,
              "SELECT sink, transition, key, delivered, tries, last_error FROM outbox WHERE alert_id = ? ORDER BY id LIMIT ?",
              id, kMaxDeliveries);
  std::vector<v1::DeliveryStatus> rows;
  while (query.step()) {
    auto& row = rows.emplace_back();
    row.set_sink(query.bytes(0));
    row.set_transition(query.bytes(1));
    row.set_key(query.bytes(2));
    row.set_delivered(query.i64(3) != 0);
    row.set_tries(query.u32(4));
    row.set_last_error(query.bytes(5));
  }
  return rows;
}

std::vector<engine::SilenceRow> SqliteStore::silences(std::int64_t after_ms, std::size_t limit) {
  ReadPool::Lease lease(readers_);
  Query query(*lease, "SELECT id, ends_ms, silence FROM silences WHERE ends_ms >= ? ORDER BY ends_ms DESC, id LIMIT ?",
              after_ms, limit);
  std::vector<engine::SilenceRow> rows;
  while (query.step()) rows.push_back({query.bytes(0), query.i64(1), query.bytes(2)});
  return rows;
}

}  // namespace scalewatch::history

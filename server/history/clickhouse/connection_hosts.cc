// Of several hosts, or replicas: which one a connection asks, and whether that one has what the others have.
#include <algorithm>

#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/connection.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::chrono::milliseconds kLookLimit{2000};
constexpr std::chrono::milliseconds kCatchUp{3000};

}  // namespace

std::string Connection::query_whole(const std::vector<std::string>& tables, std::string_view sql) {
  return send({.parameters = "&wait_end_of_query=1", .body = {sql}, .whole = tables});
}

void Connection::check(std::size_t host) {
  if (urls_.size() == 1) return;
  std::string answer;
  std::string error;
  const Request ask{
      .parameters = "", .body = {"SELECT 1"}, .in_database = false, .limit = std::min(kCatchUp, options_.timeout)};
  if (send_to(host, ask, answer, error) != Outcome::kAnswered) throw engine::StoreError("ClickHouse at " + error, true);
}

std::string Connection::send(const Request& request) {
  std::string errors;
  for (std::size_t tries = 0; tries < urls_.size(); ++tries) {
    const std::size_t host = hosts_.current();
    std::string answer;
    std::string error;
    if (catch_up(host, request.whole, error) == Outcome::kAnswered &&
        send_to(host, request, answer, error) == Outcome::kAnswered) {
      answered_at_ = std::chrono::steady_clock::now();
      return answer;
    }
    errors += (errors.empty() ? "ClickHouse at " : "; at ") + error;
    hosts_.failed();
  }
  throw engine::StoreError(errors, true);
}

Hosts::State Connection::look_at(const Options& host, const Cancelled& cancelled) {
  // A replica that is read-only, or late by more than replicas are, is no better than one that is away.
  constexpr const char* kMostLate = "10";
  const std::string database = quoted(host.database);
  try {
    Connection one(host, cancelled);
    std::string answer;
    std::string error;
    const std::string sql = "SELECT (SELECT count() FROM system.tables WHERE database = " + database + " AND name = '" +
                            (host.sharded() ? "batches_local" : "batches") +
                            "'), (SELECT count() FROM system.replicas WHERE database = " + database +
                            " AND (is_readonly OR absolute_delay > " + kMostLate + ")) FORMAT RowBinary";
    const Request look{.parameters = "", .body = {sql}, .in_database = false, .limit = kLookLimit};
    if (one.send_to(0, look, answer, error) != Outcome::kAnswered) return Hosts::State::kAway;
    RowReader row(answer);
    const bool has_tables = row.u64() > 0;
    if (row.u64() > 0) return Hosts::State::kAway;
    return has_tables ? Hosts::State::kGood : Hosts::State::kNoTables;
  } catch (const std::exception&) {
    return Hosts::State::kAway;
  }
}

Connection::Outcome Connection::catch_up(std::size_t host, const std::vector<std::string>& tables, std::string& error) {
  if (!options_.replicated()) return Outcome::kAnswered;
  const auto end = std::chrono::steady_clock::now() + std::min(kCatchUp, options_.timeout);
  for (const std::string& table : tables) {
    // What a shard's replicas tell comes through whichever of them the one that is asked chooses.
    for (std::size_t one = 0; one < urls_.size(); ++one) {
      if (one != host && !options_.sharded()) continue;
      const Outcome outcome = catch_up(one, table + (options_.sharded() ? "_local" : ""), end, error);
      const bool is_chosen = one == host || outcome != Outcome::kAway;
      if (is_chosen && outcome != Outcome::kAnswered) return outcome;
    }
  }
  return Outcome::kAnswered;
}

Connection::Outcome Connection::catch_up(std::size_t host, const std::string& table, std::chrono::steady_clock::time_point end,
                                         std::string& error) {
  constexpr const char* kTimeout = "Code: 159,";
  const std::string sync = "SYSTEM SYNC REPLICA " + table;
  const std::string queue = "SELECT count() FROM system.replication_queue WHERE database = " + quoted(options_.database) +
                            " AND table = " + quoted(table) +
                            " AND type NOT IN ('MERGE_PARTS', 'MUTATE_PART') FORMAT RowBinary";
  const auto limit = std::min(kCatchUp, options_.timeout);
  while (true) {
    std::string answer;
    const Outcome synced = send_to(host, {.parameters = "&receive_timeout=1", .body = {sync}, .limit = limit}, answer, error);
    if (synced != Outcome::kFault || error.find(kTimeout) == std::string::npos) return synced;
    // It waits for merges, too, which change no answer.
    answer.clear();
    const Outcome looked = send_to(host, {.parameters = "", .body = {queue}, .limit = limit}, answer, error);
    if (looked != Outcome::kAnswered || RowReader(answer).u64() == 0) return looked;
    if (std::chrono::steady_clock::now() < end) continue;
    error = urls_[host] + ": its " + table + " lags behind another replica";
    return Outcome::kFault;
  }
}

}  // namespace scalewatch::clickhouse

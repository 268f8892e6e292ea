#include "server/history/clickhouse/claims.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

// In order: by name, the newest first.
std::vector<std::pair<std::uint64_t, Claim>> read_claims(Connection& connection, const std::string& where, Of of) {
  const std::string sql = "SELECT run, term, token, instance, claimed_ms FROM owners WHERE " + where +
                          " ORDER BY run, term DESC, token FORMAT RowBinary";
  const std::string answer = of == Of::kAll ? connection.query_whole({"owners"}, sql) : connection.query(sql);
  std::vector<std::pair<std::uint64_t, Claim>> claims;
  for (RowReader rows(answer); !rows.done();) {
    const std::uint64_t name = rows.u64();
    claims.emplace_back(name, Claim{rows.u64(), rows.u64(), std::string(rows.text()), rows.i64()});
  }
  return claims;
}

// The largest one under which anything of the runs of a name was sent: a claim may be gone that their rows tell of.
std::uint64_t largest_term_sent(Connection& connection, const std::string& name) {
  std::uint64_t largest = 0;
  std::string runs;
  const std::string rows_there = connection.query_whole(
      {"runs"}, "SELECT run, max(version) FROM runs WHERE name = " + quoted(name) + " GROUP BY run FORMAT RowBinary");
  for (RowReader rows(rows_there); !rows.done();) {
    runs += (runs.empty() ? "" : ",") + std::to_string(rows.u64());
    largest = std::max(largest, term_of(rows.u64()));
  }
  if (runs.empty()) return 0;
  const std::string batches =
      connection.query_whole({"batches"}, "SELECT max(term) FROM batches WHERE run IN (" + runs + ") FORMAT RowBinary");
  return std::max(largest, RowReader(batches).u64());
}

}  // namespace

std::map<std::uint64_t, Claim> newest_claims(Connection& connection, const std::vector<std::uint64_t>& names, Of of) {
  if (names.empty()) return {};
  std::string list;
  for (const std::uint64_t name : names) list += (list.empty() ? "" : ",") + std::to_string(name);
  std::map<std::uint64_t, Claim> newest;
  for (auto& [name, claim] : read_claims(connection, "run IN (" + list + ")", of)) newest.try_emplace(name, std::move(claim));
  return newest;
}

// Whoever finds another claim of its term, or of a later one, goes above it: it can't know whether the other one has looked
// already and found itself alone. So a claim that stood never has a rival of the same term. Two that meet again and again part
// by waiting for random times. With replicas what is read has all that was written on any of them before: of two claims that
// were written on two of them one at least sees the other.
std::uint64_t claim_name(Connection& connection, const std::string& name, const std::string& instance, std::uint64_t known,
                         std::int64_t now_ms) {
  constexpr int kTries = 20;
  constexpr unsigned kPauseMs = 10;
  std::random_device random;
  const std::uint64_t key = name_key(name);
  const std::string is_name = "run = " + std::to_string(key);
  const std::uint64_t floor = std::max(known, largest_term_sent(connection, name));
  for (unsigned i = 0; i < kTries; ++i) {
    const auto before = read_claims(connection, is_name, Of::kAll);
    const std::uint64_t term = std::max(floor, before.empty() ? 0 : before.front().second.term) + 1;
    const std::uint64_t token = std::uint64_t{random()} << 32 | random();
    Block block(columns_of("owners"));
    add_row(block, key, term, token, instance, now_ms);
    connection.insert("owners", block);
    const auto now = read_claims(connection, is_name + " AND term >= " + std::to_string(term), Of::kAll);
    const auto is_own = [&](const auto& claim) { return claim.second.token == token; };
    if (!now.empty() && std::all_of(now.begin(), now.end(), is_own)) return term;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % ((i + 1) * kPauseMs)));
  }
  throw engine::StoreError("history.clickhouse: other servers claim the run again and again", true);
}

void renew_claim(Connection& connection, std::uint64_t name, std::uint64_t term, const std::string& instance,
                 std::int64_t now_ms) {
  Block block(columns_of("owners"));
  add_row(block, name, term, std::numeric_limits<std::uint64_t>::max(), instance, now_ms);
  connection.insert("owners", block);
}

}  // namespace scalewatch::clickhouse

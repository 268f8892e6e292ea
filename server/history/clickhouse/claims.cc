#include "server/history/clickhouse/claims.h"

#include <random>

#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

std::map<std::uint64_t, Claim> read_claims(Connection& connection, const std::string& where) {
  const std::string answer =
      connection.query("SELECT run, term, token, instance, claimed_ms FROM owners WHERE " + where + " FORMAT RowBinary");
  std::map<std::uint64_t, Claim> newest;
  for (RowReader rows(answer); !rows.done();) {
    const std::uint64_t run = rows.u64();
    Claim claim{rows.u64(), rows.u64(), std::string(rows.text()), rows.i64()};
    Claim& known = newest[run];
    if (claim.term > known.term || (claim.term == known.term && claim.token < known.token)) known = std::move(claim);
  }
  return newest;
}

}  // namespace

std::map<std::uint64_t, Claim> newest_claims(Connection& connection, const std::vector<std::uint64_t>& runs) {
  if (runs.empty()) return {};
  std::string list;
  for (const std::uint64_t run : runs) list += (list.empty() ? "" : ",") + std::to_string(run);
  return read_claims(connection, "run IN (" + list + ")");
}

std::map<std::uint64_t, Claim> newest_claims(Connection& connection) {
  return read_claims(connection, "1");
}

std::uint64_t claim_run(Connection& connection, std::uint64_t run, const std::string& instance, std::int64_t now_ms) {
  constexpr int kTries = 10;
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    const auto before = newest_claims(connection, {run});
    const auto known = before.find(run);
    const std::uint64_t term = known == before.end() ? 1 : known->second.term + 1;
    const std::uint64_t token = std::uint64_t{random()} << 32 | random();
    Block block(columns_of("owners"));
    add_row(block, run, term, token, instance, now_ms);
    connection.insert("owners", block);
    const Claim now = newest_claims(connection, {run})[run];
    if (now.token == token) return term;
    // Another one claimed at the same moment, and this one goes above it: then there is one owner, and it knows.
  }
  throw engine::StoreError("history.clickhouse: other servers claim the run again and again", true);
}

}  // namespace scalewatch::clickhouse

// Who owns a run: the claim with the largest term; of two with the same term that with the smallest token.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/history/clickhouse/connection.h"

namespace scalewatch::clickhouse {

struct Claim {
  std::uint64_t term = 0;
  std::uint64_t token = 0;
  std::string instance;
  std::int64_t claimed_ms = 0;
};

// Of these runs, or of all; by run_key(). Throws StoreError.
std::map<std::uint64_t, Claim> newest_claims(Connection& connection, const std::vector<std::uint64_t>& runs);
std::map<std::uint64_t, Claim> newest_claims(Connection& connection);

// Claims a run with a term above all that are there. Throws StoreError.
std::uint64_t claim_run(Connection& connection, std::uint64_t run, const std::string& instance, std::int64_t now_ms);

}  // namespace scalewatch::clickhouse

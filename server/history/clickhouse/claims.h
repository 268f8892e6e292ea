// Who owns the runs of a name: the claim with the largest term. Keyed by name_key().
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

// Claims that are on any replica by now, or those that the one which answers has.
enum class Of : std::uint8_t { kAll, kOne };
// Throws StoreError.
std::map<std::uint64_t, Claim> newest_claims(Connection& connection, const std::vector<std::uint64_t>& names, Of of = Of::kAll);

// Claims a run's name with a term above `known`, above all claims of it and all that is there of its runs, and that no other
// claim has. Throws StoreError.
std::uint64_t claim_name(Connection& connection, const std::string& name, const std::string& instance, std::uint64_t known,
                         std::int64_t now_ms);

// Writes a claim that stood once more, where the shared history has lost it. Any other claim of its term goes before it.
void renew_claim(Connection& connection, std::uint64_t name, std::uint64_t term, const std::string& instance,
                 std::int64_t now_ms);

}  // namespace scalewatch::clickhouse

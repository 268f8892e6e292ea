// What each rank is asked to send: one stats leader per distinct shard, and a microscope around what open findings blame.
//
// Pure: a function of what is known, so that a restarted server asks for the same. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/domain/finding.h"
#include "server/domain/observation.h"

namespace scalewatch::domain {

struct CollectionOptions {
  // Of ranks that hold the same tensors of a role, only the lowest live one sends their full statistics; the others send what
  // is non-finite.
  bool stats_leader = true;
  // The others still send parameters, buffers and optimizer state every so many attempts: replicas are compared by them.
  std::uint32_t state_every = 50;
  // While a finding of at least warning is open: full records of the blamed tensor and its neighbours, every attempt.
  bool microscope = true;
  std::uint32_t microscope_findings = 4;    // at once in a run, worst first; those that blame the same count as one
  std::uint32_t microscope_tensors = 64;    // names at once in a run, nearest to the blamed ones first
  std::uint32_t microscope_ranks = 8;       // of those that a finding blames, the lowest; their groups' leaders come on top
  std::uint32_t microscope_attempts = 200;  // beyond the finding's newest attempt, up to a quarter more
  std::uint32_t microscope_reach = 2;       // neighbours: tensors within so many places in forward order
};

// What a table holds of one role, whatever the order of its ids: equal for ranks that hold the same (name, shard). By role, for
// ranks of a data-parallel job hold the same weights, and each the activations of its own part of the batch.
struct RoleKey {
  std::uint64_t sum = 0;
  std::uint64_t tensors = 0;
  auto operator<=>(const RoleKey&) const = default;
};
struct TableKey {
  std::array<RoleKey, 7> roles{};  // by Role
  std::uint64_t size = 0;          // tensors of all
  bool operator==(const TableKey&) const = default;
  [[nodiscard]] const RoleKey& of(Role role) const { return roles[static_cast<std::size_t>(role) % roles.size()]; }
};
// Key of `table`, given that of its first `known.size` tensors.
TableKey key_of(const TensorTable& table, TableKey known = {});

struct CollectionRank {
  Rank rank = 0;
  TableKey key;
  std::shared_ptr<const TensorTable> table;  // not null
};

// Desired state of one Directive. Attempts are of the segment.
struct CollectionRequest {
  static constexpr std::uint32_t kNonFiniteOnly = UINT32_MAX;

  std::string id;
  std::vector<std::string> tensors;  // empty: all
  std::vector<Role> roles;           // empty: all
  std::uint32_t every = 0;           // 0: as the rank's own sampling has it
  std::uint32_t report_every = 0;    // 0: each
  bool send_ring = false;
  Attempt until = 0;  // 0: no end

  bool operator==(const CollectionRequest&) const = default;
};
using CollectionPlan = std::map<Rank, std::vector<CollectionRequest>>;

// `ranks`: the live ones, by rank. `open`: worst first. `newest`: newest closed attempt. A rank that is asked for nothing
// beyond its own sampling is absent.
CollectionPlan plan_collection(const std::vector<CollectionRank>& ranks, const std::vector<Finding>& open, Attempt newest,
                               const CollectionOptions& options);

}  // namespace scalewatch::domain

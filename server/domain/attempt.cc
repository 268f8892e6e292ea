#include "server/domain/attempt.h"

#include <algorithm>
#include <tuple>

namespace scalewatch::domain {
namespace {

// Stage of the flow, then position within it; a gradient of an activation comes before its weight's.
std::tuple<int, std::int64_t, int> flow_key(Role role, std::uint32_t index) {
  switch (role) {
    case Role::kParameter:
    case Role::kBuffer:
    case Role::kOptimizerState:
      return {0, index, static_cast<int>(role)};
    case Role::kActivation:
      return {1, index, 0};
    case Role::kActivationGradient:
      return {2, -static_cast<std::int64_t>(index), 0};
    case Role::kGradient:
      return {2, -static_cast<std::int64_t>(index), 1};
    case Role::kUnspecified:
      break;
  }
  return {3, index, 0};
}

void insert_rank(std::vector<Rank>& ranks, Rank rank) {
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (at == ranks.end() || *at != rank) ranks.insert(at, rank);
}

bool names_optimizers(const TensorTable& table) {
  return std::any_of(table.begin(), table.end(), [](const TensorInfo& info) { return !info.optimizer.empty(); });
}

}  // namespace

bool flows_before(Role a_role, std::uint32_t a_index, Role b_role, std::uint32_t b_index) {
  return flow_key(a_role, a_index) < flow_key(b_role, b_index);
}

void JoinedAttempt::join_detail(const AttemptDigest& digest) {
  add_non_finite(digest);
  for (RankReport& report : reports) {
    if (report.rank != digest.rank) continue;
    report.observed_gradients |= digest.observed_gradients;
    report.observed_activations |= digest.observed_activations;
  }
}

void JoinedAttempt::add_non_finite(const AttemptDigest& digest) {
  if (!digest.table || digest.non_finite.empty()) return;
  const bool owners_known = names_optimizers(*digest.table);
  for (const NonFiniteTensor& bad : digest.non_finite) {
    if (bad.id >= digest.table->size()) continue;
    const TensorInfo& info = (*digest.table)[bad.id];
    const auto before = [](const TensorAt& tensor, const TensorInfo& wanted) {
      if (flows_before(tensor.role, tensor.forward_index, wanted.role, wanted.forward_index)) return true;
      if (flows_before(wanted.role, wanted.forward_index, tensor.role, tensor.forward_index)) return false;
      return tensor.name < wanted.name;
    };
    auto at = std::lower_bound(non_finite.begin(), non_finite.end(), info, before);
    if (at == non_finite.end() || at->name != info.name || at->role != info.role || at->forward_index != info.forward_index) {
      if (non_finite.size() >= kMaxTensors) continue;
      TensorAt fresh;
      fresh.name = info.name;
      fresh.role = info.role;
      fresh.forward_index = info.forward_index;
      fresh.optimizer = info.optimizer;
      fresh.stepped = !owners_known || !info.optimizer.empty();
      at = non_finite.insert(at, std::move(fresh));
    }
    // Shards of one rank add up; the same rank's second telling of an attempt (retrospective detail) must not.
    const bool told = digest.retrospective && std::binary_search(at->ranks.begin(), at->ranks.end(), digest.rank);
    if (told) continue;
    at->nan += bad.nan;
    at->pos_inf += bad.pos_inf;
    at->neg_inf += bad.neg_inf;
    insert_rank(at->ranks, digest.rank);
  }
}

void JoinedAttempt::join(const AttemptDigest& digest, std::vector<ScalerReport> scalers) {
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), digest.rank);
  if (at != ranks.end() && *at == digest.rank) return;
  ranks.insert(at, digest.rank);
  RankReport report;
  report.rank = digest.rank;
  report.step = digest.step;
  report.phase = digest.phase;
  report.loss = digest.loss;
  report.grad_norm = digest.grad_norm;
  report.input_non_finite = digest.input_non_finite;
  report.non_finite_total = digest.non_finite_total;
  report.observed_gradients = digest.observed_gradients;
  report.observed_activations = digest.observed_activations;
  report.observed_parameters = digest.observed_parameters;
  report.scalers = std::move(scalers);
  if (digest.table) {
    for (const std::uint32_t id : digest.recovered) {
      if (id < digest.table->size()) report.recovered.emplace_back((*digest.table)[id].role, (*digest.table)[id].name);
    }
    if (digest.falling && digest.falling->id < digest.table->size()) {
      report.falling = (*digest.table)[digest.falling->id].name;
      report.octaves_fallen = digest.falling->octaves;
    }
    for (const ReplicaHash& replica : digest.replicas) {
      if (replica.id >= digest.table->size()) continue;
      const TensorInfo& info = (*digest.table)[replica.id];
      const auto [seen, fresh] = replicas.try_emplace(fnv1a(info.shard, fnv1a(info.name) * 31), ReplicaSeen{});
      if (fresh) {
        seen->second = {replica.hash, digest.rank, 1};
        continue;
      }
      ++seen->second.copies;
      ++replicas_compared;
      if (seen->second.hash != replica.hash && mismatches.size() < kMaxMismatches) {
        mismatches.push_back({info.name, seen->second.rank, digest.rank});
      }
    }
  }
  reports.push_back(std::move(report));
  add_non_finite(digest);
}

void JoinedAttempt::sort() {
  std::sort(reports.begin(), reports.end(), [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
}

}  // namespace scalewatch::domain

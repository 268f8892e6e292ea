#include "server/domain/attempt.h"

#include <algorithm>
#include <array>
#include <iterator>
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

// Before the counts are added. Every rank holds the mask; where it began only those that have worse.
void take_rank(TensorAt& tensor, const NonFiniteTensor& bad, Rank rank) {
  const bool activation = tensor.role == Role::kActivation;
  const bool mask = activation && bad.nan == 0 && bad.pos_inf == 0 && !bad.neg_inf_is_new;
  const bool worse = !activation || tensor.nan + tensor.pos_inf > 0 || tensor.neg_inf_is_new;
  if (mask && worse) {
    insert_rank(tensor.masked, rank);
    return;
  }
  if (!mask && !worse) {
    tensor.masked.swap(tensor.ranks);
    tensor.earliest.clear();
    tensor.first_bad_micro.reset();
  }
  insert_rank(tensor.ranks, rank);
  if (!bad.first_bad_micro || (tensor.first_bad_micro && *tensor.first_bad_micro < *bad.first_bad_micro)) return;
  if (tensor.first_bad_micro != bad.first_bad_micro) tensor.earliest.clear();
  tensor.first_bad_micro = bad.first_bad_micro;
  insert_rank(tensor.earliest, rank);
}

int stage_of(Role role) {
  if (is_state(role)) return 0;
  return role == Role::kActivation ? 1 : 2;
}

bool any_bad(const AttemptDigest& digest) {
  return !digest.non_finite.empty() ||
         std::any_of(digest.scalers.begin(), digest.scalers.end(), [](const ScalerObservation& scaler) {
           return std::any_of(scaler.optimizers.begin(), scaler.optimizers.end(), [](const OptimizerObservation& o) {
             return o.found_inf_local.value_or(0) != 0 || o.found_inf_decided.value_or(0) != 0;
           });
         });
}

// Looked up only where something is bad: a table may be long.
bool holds_whole_gradients(const AttemptDigest& digest) {
  if (!digest.table || !any_bad(digest)) return false;
  bool whole = false;
  for (const TensorInfo& info : *digest.table) {
    if (info.role != Role::kGradient) continue;
    if (!info.shard.empty()) return false;
    whole = true;
  }
  return whole;
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
    report.observed_activation_gradients |= digest.observed_activation_gradients;
    report.observed_parameters |= digest.observed_parameters;
    report.whole_gradients |= holds_whole_gradients(digest);
    if (!report.input_non_finite) report.input_non_finite = digest.input_non_finite;
    if (!report.loss) report.loss = digest.loss;
  }
}

// Drops the last tensor of the stage that has the most, so that ranks of a large job that came first, or a thousand poisoned
// weights, can't keep out where it began.
void JoinedAttempt::make_room() {
  std::array<std::size_t, 3> count{};
  for (const TensorAt& tensor : non_finite) ++count[stage_of(tensor.role)];
  const auto largest = static_cast<int>(std::max_element(count.begin(), count.end()) - count.begin());
  const auto last = std::find_if(non_finite.rbegin(), non_finite.rend(),
                                 [&](const TensorAt& tensor) { return stage_of(tensor.role) == largest; });
  non_finite.erase(std::next(last).base());
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
      TensorAt fresh;
      fresh.name = info.name;
      fresh.role = info.role;
      fresh.forward_index = info.forward_index;
      fresh.optimizer = info.optimizer;
      fresh.stepped = !owners_known || !info.optimizer.empty();
      at = non_finite.insert(at, std::move(fresh));
    }
    // Shards of one rank add up; the same rank's second telling of an attempt (retrospective detail) must not.
    const auto on = [&](const std::vector<Rank>& some) { return std::binary_search(some.begin(), some.end(), digest.rank); };
    if (digest.retrospective && (on(at->ranks) || on(at->masked))) continue;
    take_rank(*at, bad, digest.rank);
    at->nan += bad.nan;
    at->pos_inf += bad.pos_inf;
    at->neg_inf += bad.neg_inf;
    at->neg_inf_is_new = at->neg_inf_is_new || bad.neg_inf_is_new;
    if (non_finite.size() > kMaxTensors) make_room();
  }
}

RankReport& JoinedAttempt::join(const AttemptDigest& digest) {
  insert_rank(ranks, digest.rank);
  RankReport& report = reports.emplace_back();
  report.rank = digest.rank;
  report.step = digest.step;
  report.phase = digest.phase;
  report.loss = digest.loss;
  report.lr = digest.lr;
  report.grad_norm = digest.grad_norm;
  report.grad_norm_scaled = digest.grad_norm_scaled;
  report.grad_norm_clipped = digest.grad_norm_clipped;
  report.gradient_norm = digest.gradient_norm;
  report.gradient_scale = digest.gradient_scale;
  report.gradients_zero = digest.gradients_zero;
  report.accuracy = digest.accuracy;
  report.outcome_counted = digest.outcome_counted;
  // Mostly empty, and a copy of nothing costs too.
  if (!digest.misuse.empty()) report.misuse = digest.misuse;
  if (!digest.rank_differences.empty()) report.rank_differences = digest.rank_differences;
  if (!digest.tensor_faults.empty()) report.tensor_faults = digest.tensor_faults;
  report.input_non_finite = digest.input_non_finite;
  report.non_finite_total = digest.non_finite_total;
  report.observed_gradients = digest.observed_gradients;
  report.observed_activations = digest.observed_activations;
  report.observed_activation_gradients = digest.observed_activation_gradients;
  report.observed_parameters = digest.observed_parameters;
  report.whole_gradients = holds_whole_gradients(digest);
  if (digest.table) {
    for (const std::uint32_t id : digest.recovered) {
      if (id < digest.table->size()) report.recovered.emplace_back((*digest.table)[id].role, (*digest.table)[id].name);
    }
    for (const std::uint32_t id : digest.unmasked) {
      if (id < digest.table->size()) report.unmasked.push_back(fnv1a((*digest.table)[id].name));
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
    add_non_finite(digest);
  }
  return report;
}

void JoinedAttempt::clear() {
  attempt = 0;
  reports.clear();
  ranks.clear();
  non_finite.clear();
  replicas.clear();
  replicas_compared = 0;
  mismatches.clear();
  missing.clear();
}

void JoinedAttempt::sort() {
  std::sort(reports.begin(), reports.end(), [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
}

}  // namespace scalewatch::domain

#include "server/domain/tensor_facts.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "server/domain/policy.h"

namespace scalewatch::domain {
namespace {

// Finds tensors by role, name and shard. Sorted ids: a table has up to a million.
class Index {
 public:
  explicit Index(const TensorTable& table) : table_(table) {
    for (std::uint32_t id = 0; id < table.size(); ++id) {
      if (table[id].role == Role::kGradient || table[id].role == Role::kParameter) ids_.push_back(id);
    }
    std::sort(ids_.begin(), ids_.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  }
  [[nodiscard]] std::uint32_t find(Role role, std::string_view name, std::string_view shard) const {
    const Key wanted{role, name, shard};
    const auto at =
        std::lower_bound(ids_.begin(), ids_.end(), wanted, [&](std::uint32_t id, const Key& to) { return key(id) < to; });
    return at != ids_.end() && key(*at) == wanted ? *at : TensorFacts::kNoPartner;
  }

 private:
  using Key = std::tuple<Role, std::string_view, std::string_view>;
  [[nodiscard]] Key key(std::uint32_t id) const { return {table_[id].role, table_[id].name, table_[id].shard}; }

  const TensorTable& table_;
  std::vector<std::uint32_t> ids_;
};

std::uint8_t optimizer_of(const TensorInfo& info, const RankFacts& rank) {
  if (info.optimizer.empty()) return rank.optimizers.size() == 1 ? 0 : TensorFacts::kAnyOptimizer;
  for (std::size_t i = 0; i < rank.optimizers.size() && i < TensorFacts::kAnyOptimizer; ++i) {
    if (rank.optimizers[i].name == info.optimizer) return static_cast<std::uint8_t>(i);
  }
  return TensorFacts::kAnyOptimizer;
}

bool states_told(std::uint8_t optimizer, const RankFacts& rank) {
  return optimizer < rank.optimizers.size() && !rank.optimizers[optimizer].state_dtypes.empty();
}

// Does what is known of the optimizer rule out that it keeps fp32 copies of narrow weights?
bool keeps_no_master(std::uint8_t optimizer, const RankFacts& rank) {
  if (optimizer >= rank.optimizers.size()) return false;
  const OptimizerInfo& info = rank.optimizers[optimizer];
  if (states_told(optimizer, rank)) return std::all_of(info.state_dtypes.begin(), info.state_dtypes.end(), is_narrow);
  // PyTorch's GradScaler keeps none, and neither do the optimizers that it is made for.
  return info.scaler < rank.scalers.size() && rank.scalers[info.scaler].policy == "pytorch";
}

}  // namespace

std::vector<TensorFacts> describe(const TensorTable& table, const RankFacts& rank) {
  std::vector<bool> is_static;
  for (const ScalerInfo& scaler : rank.scalers) {
    const auto policy = make_policy(scaler.policy, scaler.parameters);
    is_static.push_back(policy != nullptr && !policy->dynamic());
  }
  const bool names_optimizers =
      std::any_of(table.begin(), table.end(), [](const TensorInfo& info) { return !info.optimizer.empty(); });
  std::vector<TensorFacts> all(table.size());
  for (std::uint32_t id = 0; id < table.size(); ++id) {
    const TensorInfo& info = table[id];
    TensorFacts& facts = all[id];
    facts.numel = info.numel;
    facts.role = info.role;
    facts.dtype = info.dtype;
    facts.replicated = !info.replica.empty();
    facts.group = rank.no_group();
    if (info.role == Role::kActivation || info.role == Role::kActivationGradient) {
      if (info.role == Role::kActivationGradient && rank.scalers.size() == 1) facts.group = 0;
      continue;
    }
    facts.stepped = !names_optimizers || !info.optimizer.empty();
    facts.optimizer = optimizer_of(info, rank);
    if (facts.optimizer < rank.optimizers.size() && rank.optimizers[facts.optimizer].scaler < rank.scalers.size()) {
      facts.group = static_cast<std::uint8_t>(rank.optimizers[facts.optimizer].scaler);
    } else if (rank.scalers.size() == 1) {
      facts.group = 0;
    }
    facts.static_scale = facts.group == rank.no_group() ? rank.scalers.empty() : is_static[facts.group];
    facts.no_master = info.role == Role::kParameter && is_narrow(info.dtype) && keeps_no_master(facts.optimizer, rank);
  }
  if (std::none_of(table.begin(), table.end(), [](const TensorInfo& info) { return info.role == Role::kOptimizerState; })) {
    return all;
  }
  const Index index(table);
  for (const bool wide : {false, true}) {
    for (std::uint32_t id = 0; id < table.size(); ++id) {
      const TensorInfo& info = table[id];
      const std::size_t dot = info.name.rfind('.');
      if (info.role != Role::kOptimizerState || dot == std::string::npos || is_narrow(info.dtype) == wide) continue;
      const std::string_view name = info.name;
      const std::string_view owner = name.substr(0, dot);
      if (name.substr(dot + 1) == "exp_avg_sq") all[id].partner = index.find(Role::kGradient, owner, info.shard);
      const std::uint32_t weight = index.find(Role::kParameter, owner, info.shard);
      if (weight == TensorFacts::kNoPartner || !is_narrow(table[weight].dtype)) continue;
      // State wider than the weight may be its master copy; where all that is known is narrow, there is none.
      if (wide) {
        all[weight].no_master = false;
      } else if (!states_told(all[weight].optimizer, rank)) {
        all[weight].no_master = true;
      }
    }
  }
  return all;
}

}  // namespace scalewatch::domain

#include "tests/unit/domain/graphs/trainer.h"

#include <algorithm>
#include <cmath>

#include "cuda/cpu/measure.h"
#include "cuda/record/merge.h"

namespace scalewatch::domain::graphs {
namespace {

constexpr std::size_t kElements = kWidth * kWidth;  // of a weight

bool bad(const Values& values) {
  return std::any_of(values.begin(), values.end(), [](Half x) { return !std::isfinite(static_cast<float>(x)); });
}

void add(RankStep& step, TensorAtNode at, const Record& record, std::uint32_t micro, bool several) {
  Measured& tensor = step.tensors[at];
  if (several && record.non_finite() > 0 && !tensor.first_bad_micro) tensor.first_bad_micro = micro;
  merge(tensor.record, record);
}

Record measured(const Values& values, double scale) {
  return measure(values.data(), DType::kFp16, values.size(), DType::kFp16, scale);
}

}  // namespace

bool Step::finite() const {
  for (const RankStep& rank : ranks) {
    if (!std::isfinite(rank.loss)) return false;
    for (const auto& [at, tensor] : rank.tensors) {
      const bool mask = at.first == Role::kActivation && tensor.record.nan == 0 && tensor.record.pos_inf == 0;
      if (tensor.record.non_finite() > 0 && !mask) return false;
    }
  }
  return !found_inf;
}

Trainer::Trainer(const Graph& graph, const Setup& setup, std::uint64_t seed)
    : graph_(graph), setup_(setup), random_(seed), policy_(make_policy("pytorch", {{"init_scale", setup.init_scale}})) {
  Replica first;
  first.master.resize(graph.nodes.size());
  first.momentum.resize(graph.nodes.size());
  first.weights.weight.resize(graph.nodes.size());
  first.weights.running.resize(graph.nodes.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (graph.nodes[node].op == Op::kCentre) first.weights.running[node].assign(kWidth, 0.01F);
    if (!graph.weighted(node)) continue;
    first.momentum[node].assign(kElements, 0);
    for (std::size_t i = 0; i < kElements; ++i) {
      // Away from 0, so that every column's magnitudes add up to more than 1.
      const double magnitude = random_.uniform(0.15, 0.45);
      first.master[node].push_back(static_cast<float>(random_.chance(50) ? magnitude : -magnitude));
    }
  }
  ranks_.assign(setup.ranks, first);
}

void Trainer::scale_weight(std::size_t node, float factor) {
  for (Replica& rank : ranks_) {
    for (float& weight : rank.master[node]) weight *= factor;
  }
}

Trainer::Range Trainer::owned(Rank rank) const {
  if (!setup_.sharded) return {0, kElements};
  return {kElements * rank / setup_.ranks, kElements * (rank + 1) / setup_.ranks};
}

void Trainer::gather() {
  for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
    if (!graph_.weighted(node)) continue;
    for (Rank rank = 0; rank < setup_.ranks; ++rank) {
      const auto [begin, end] = owned(rank);
      for (Rank reader = 0; reader < setup_.ranks; ++reader) {
        if (!setup_.sharded && reader != rank) continue;
        Values& weight = ranks_[reader].weights.weight[node];
        weight.resize(kElements);
        for (std::size_t i = begin; i < end; ++i) weight[i] = static_cast<Half>(ranks_[rank].master[node][i]);
      }
    }
  }
}

void Trainer::run_micros(Rank rank, const std::vector<Fault>& faults, RankStep& out) {
  Replica& own = ranks_[rank];
  own.gradient.assign(graph_.nodes.size(), Values());
  own.bad_micro.assign(graph_.nodes.size(), {});
  const double scale = setup_.scaler ? policy_->scale() : 1;
  const bool several = setup_.micros > 1;
  for (std::uint32_t micro = 0; micro < setup_.micros; ++micro) {
    Values input(kSize);
    Values labels(kSize);
    for (Half& x : input) x = static_cast<Half>(random_.uniform(-1, 1));
    for (Half& x : labels) x = static_cast<Half>(random_.uniform(-1, 1));
    std::vector<Fault> here;
    for (const Fault& fault : faults) {
      if (fault.on(rank) && fault.micro == micro) here.push_back(fault);
    }
    const Pass pass = run_pass(graph_, own.weights, std::move(input), std::move(labels), scale / setup_.micros, here);
    out.loss += pass.loss / setup_.micros;
    out.input_non_finite = out.input_non_finite || pass.input_non_finite;
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      add(out, {Role::kActivation, node}, measured(pass.out[node], 1), micro, several);
      add(out, {Role::kActivationGradient, node}, measured(pass.gradient[node], scale), micro, several);
      const Values& gradient = pass.weight_gradient[node];
      Values& sum = own.gradient[node];
      sum.resize(gradient.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) sum[i] = static_cast<Half>(sum[i] + gradient[i]);
      if (several && !own.bad_micro[node] && bad(sum)) own.bad_micro[node] = micro;
    }
  }
  for (const Fault& fault : faults) {
    if (fault.place == Place::kReduction) own.gradient[fault.node][fault.element] = Half(40000);
  }
  out.bad_before = std::any_of(own.gradient.begin(), own.gradient.end(), bad);
}

void Trainer::reduce(const std::vector<Fault>& faults, Step& step) {
  for (Rank rank = 0; rank < setup_.ranks; ++rank) run_micros(rank, faults, step.ranks[rank]);
  const Half ranks = static_cast<Half>(setup_.ranks);
  for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
    if (!graph_.weighted(node)) continue;
    Values sum(kElements);
    for (Replica& rank : ranks_) {
      for (std::size_t i = 0; i < kElements; ++i) {
        const Half part = setup_.pre_divide ? static_cast<Half>(rank.gradient[node][i] / ranks) : rank.gradient[node][i];
        sum[i] = static_cast<Half>(sum[i] + part);
      }
    }
    for (Half& x : sum) {
      if (!setup_.pre_divide) x = static_cast<Half>(x / ranks);
    }
    for (Rank rank = 0; rank < setup_.ranks; ++rank) {
      const auto [begin, end] = owned(rank);
      Values part(sum.begin() + static_cast<std::ptrdiff_t>(begin), sum.begin() + static_cast<std::ptrdiff_t>(end));
      step.ranks[rank].bad_after = step.ranks[rank].bad_after || bad(part);
      Measured& tensor = step.ranks[rank].tensors[{Role::kGradient, node}];
      tensor.record = measured(part, setup_.scaler ? policy_->scale() : 1);
      if (tensor.record.non_finite() > 0) tensor.first_bad_micro = ranks_[rank].bad_micro[node];
    }
    for (Replica& rank : ranks_) rank.gradient[node] = sum;
  }
}

void Trainer::update(Rank rank, double scale) {
  Replica& own = ranks_[rank];
  const auto [begin, end] = owned(rank);
  for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
    if (!graph_.weighted(node)) continue;
    for (std::size_t i = begin; i < end; ++i) {
      own.momentum[node][i] =
          0.9F * own.momentum[node][i] + static_cast<float>(own.gradient[node][i]) / static_cast<float>(scale);
      own.master[node][i] -= setup_.learning_rate * own.momentum[node][i];
    }
  }
}

void Trainer::write_faults(Rank rank, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    if (!fault.on(rank)) continue;
    if (fault.place == Place::kWeightWrite) ranks_[rank].master[fault.node][fault.element] = static_cast<float>(fault.value);
    if (fault.place == Place::kOptimizerState)
      ranks_[rank].momentum[fault.node][fault.element] = static_cast<float>(fault.value);
  }
}

void Trainer::measure_state(Rank rank, RankStep& out) {
  const Replica& own = ranks_[rank];
  const auto [begin, end] = owned(rank);
  const auto fp32 = [](const float* data, std::size_t count) { return measure(data, DType::kFp32, count, DType::kFp32, 1); };
  for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
    if (graph_.weighted(node)) {
      out.tensors[{Role::kParameter, node}].record = fp32(own.master[node].data() + begin, end - begin);
      out.tensors[{Role::kOptimizerState, node}].record = fp32(own.momentum[node].data() + begin, end - begin);
    }
    if (graph_.nodes[node].op == Op::kCentre) {
      out.tensors[{Role::kBuffer, node}].record = fp32(own.weights.running[node].data(), kWidth);
    }
    if (!graph_.weighted(node)) out.tensors.erase({Role::kGradient, node});
  }
}

Step Trainer::step(const std::vector<Fault>& faults) {
  Step step;
  step.ranks.resize(setup_.ranks);
  step.scale_before = setup_.scaler ? policy_->scale() : 1;
  for (const Fault& fault : faults) {
    if (fault.place != Place::kWeight) continue;
    for (const Rank rank : fault.ranks) ranks_[rank].master[fault.node][fault.element] = static_cast<float>(fault.value);
  }
  gather();
  reduce(faults, step);
  for (const RankStep& rank : step.ranks) step.found_inf = step.found_inf || rank.bad_after;
  step.applied = !setup_.scaler || !step.found_inf;
  for (Rank rank = 0; rank < setup_.ranks; ++rank) {
    if (step.applied) update(rank, step.scale_before);
    write_faults(rank, faults);
    measure_state(rank, step.ranks[rank]);
  }
  step.scale_after = setup_.scaler ? policy_->update(step.found_inf) : 1;
  return step;
}

}  // namespace scalewatch::domain::graphs

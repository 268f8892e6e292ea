// The answer for the attempt after: what a fault leaves behind.
#include <algorithm>

#include "tests/unit/domain/graphs/scenario.h"

namespace scalewatch::domain::graphs {

Reach reach_in(const Scenario& scenario, const Fault& fault) {
  const bool overflows = scenario.setup.ranks > 1 && !scenario.setup.pre_divide;
  if (fault.place != Place::kReduction || overflows) return reach_of(scenario.graph, fault);
  Reach nothing = reach_of(scenario.graph, fault);
  std::fill(nothing.gradient.begin(), nothing.gradient.end(), Taint::kClean);
  return nothing;
}

std::optional<Expectation> expect_after(const Scenario& scenario) {
  if (scenario.faults.size() != 1) return std::nullopt;
  const Fault& fault = scenario.faults.front();
  const Reach reach = reach_in(scenario, fault);
  const bool buffers =
      std::any_of(reach.buffer.begin(), reach.buffer.end(), [](Taint taint) { return taint != Taint::kClean; });
  const Watch& watch = scenario.watch;
  Expectation out;
  const auto state = [&](Role role, const std::string& name) {
    out.where = "weights";
    out.role = role;
    out.tensor = name;
    out.ranks = fault.ranks;
    return out;
  };
  const std::string& node = scenario.graph.nodes[fault.node].name;
  switch (fault.place) {
    case Place::kWeight:
    case Place::kReduction:
      return std::nullopt;
    case Place::kBufferWrite:
      if (!watch.state) return std::nullopt;
      return state(Role::kBuffer, node + ".running_mean");
    case Place::kOptimizerState:
      if (!watch.state || watch.hidden_weight[fault.node]) return out;
      return state(Role::kOptimizerState, node + ".weight.exp_avg");
    case Place::kWeightWrite:
      if (!watch.state || watch.hidden_weight[fault.node]) return std::nullopt;
      return state(Role::kParameter, node + ".weight");
    default:
      break;
  }
  if (buffers) return std::nullopt;
  if (scenario.setup.scaler || !reach.may_skip()) return out;  // it left nothing behind
  // Applied: the weights whose gradients were bad are poisoned. The first that the next forward pass meets is to blame.
  for (std::size_t i = 0; i < reach.gradient.size(); ++i) {
    if (reach.gradient[i] == Taint::kClean) continue;
    if (!certain(reach.gradient[i]) || watch.hidden_weight[i] || !watch.state) return std::nullopt;
    state(Role::kParameter, scenario.graph.nodes[i].name + ".weight");
    out.ranks.clear();
    return out;
  }
  return out;
}

}  // namespace scalewatch::domain::graphs

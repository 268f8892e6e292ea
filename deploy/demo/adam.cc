#include "deploy/demo/adam.h"

#include <cmath>

namespace scalewatch::demo {

Adam::Adam(const std::vector<Model<Half>::Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    const std::vector<float> zeros(parameter.master.size());
    states_.push_back({zeros, zeros, zeros});
  }
}

double Adam::gradient_norm() const {
  double sum = 0;
  for (const State& state : states_) {
    for (const float g : state.gradient) sum += static_cast<double>(g) * static_cast<double>(g);
  }
  return std::sqrt(sum);
}

void Adam::step(std::vector<Model<Half>::Parameter>& parameters, double lr) {
  ++steps_;
  const double t = static_cast<double>(steps_);
  const auto rate = static_cast<float>(lr / (1 - std::pow(static_cast<double>(kBeta1), t)));
  const auto correction = static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(kBeta2), t)));
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    State& state = states_[p];
    auto& weights = parameters[p].master;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float g = state.gradient[i];
      state.exp_avg[i] = kBeta1 * state.exp_avg[i] + (1 - kBeta1) * g;
      state.exp_avg_sq[i] = kBeta2 * state.exp_avg_sq[i] + (1 - kBeta2) * g * g;
      weights[i] -= rate * state.exp_avg[i] / (std::sqrt(state.exp_avg_sq[i]) * correction + kEpsilon);
    }
  }
}

}  // namespace scalewatch::demo

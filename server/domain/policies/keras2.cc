// Keras 2's LossScaleOptimizer. Parameters: initial_scale, dynamic_growth_steps.
#include <algorithm>
#include <cmath>
#include <limits>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class Keras2Policy : public Policy {
 public:
  explicit Keras2Policy(ParameterReader& parameters)
      : Policy(static_cast<float>(parameters.positive({"initial_scale", "init_scale"}, 0x1p15))),
        interval_(parameters.count({"dynamic_growth_steps", "growth_interval"}, 2000)) {}

  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return interval_; }
  [[nodiscard]] std::optional<double> floor() const override { return 1; }
  [[nodiscard]] std::optional<double> ceiling() const override { return std::numeric_limits<float>::max(); }

 protected:
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = std::max(times_fp32(state.scale, 0.5), 1.0);
      state.clean = 0;
    } else if (++state.clean >= interval_) {
      const double grown = times_fp32(state.scale, 2);
      if (std::isfinite(grown)) state.scale = grown;
      state.clean = 0;
    }
  }

 private:
  std::int64_t interval_;
};

}  // namespace

std::unique_ptr<Policy> make_keras2_policy(ParameterReader& parameters) {
  return std::make_unique<Keras2Policy>(parameters);
}

}  // namespace scalewatch::domain

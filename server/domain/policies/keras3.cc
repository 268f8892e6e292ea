// Keras 3's LossScaleOptimizer. Parameters: initial_scale, dynamic_growth_steps.
#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class Keras3Policy : public Policy {
 public:
  explicit Keras3Policy(ParameterReader& parameters)
      : Policy(static_cast<float>(parameters.positive({"initial_scale", "init_scale"}, 0x1p15))),
        interval_(parameters.count({"dynamic_growth_steps", "growth_interval"}, 2000)) {}

  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return interval_; }

 protected:
  // Nothing keeps the scale from 0 or from Inf.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = times_fp32(state.scale, 0.5);
      state.clean = 0;
    } else if (++state.clean == interval_) {
      state.scale = times_fp32(state.scale, 2);
      state.clean = 0;
    }
  }

 private:
  std::int64_t interval_;
};

}  // namespace

std::unique_ptr<Policy> make_keras3_policy(ParameterReader& parameters) {
  return std::make_unique<Keras3Policy>(parameters);
}

}  // namespace scalewatch::domain

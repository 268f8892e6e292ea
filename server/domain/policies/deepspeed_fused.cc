// DeepSpeed without ZeRO: FP16_Optimizer (fused) and FP16_UnfusedOptimizer, which differ only in their bare defaults.
// Parameters: init_scale, scale_window, min_scale (or min_loss_scale), scale_factor.
#include <algorithm>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class DeepSpeedFusedPolicy : public Policy {
 public:
  DeepSpeedFusedPolicy(ParameterReader& parameters, double init, double floor)
      : Policy(parameters.positive({"init_scale"}, init)),
        factor_(parameters.positive({"scale_factor"}, 2)),
        window_(parameters.count({"scale_window", "loss_scale_window"}, 1000)),
        floor_(parameters.positive({"min_scale", "min_loss_scale"}, floor)) {}

  [[nodiscard]] double growth_factor() const override { return factor_; }
  [[nodiscard]] double backoff_factor() const override { return 1 / factor_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return window_; }
  [[nodiscard]] std::optional<double> floor() const override { return floor_; }

 protected:
  // The first growth after an overflow, and after the start, takes one clean attempt more than the window.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = std::max(state.scale / factor_, floor_);
      state.clean = 0;
      return;
    }
    const std::int64_t stable = state.clean++;
    if (stable > 0 && stable % window_ == 0) state.scale *= factor_;
  }

 private:
  double factor_;
  std::int64_t window_;
  double floor_;
};

}  // namespace

std::unique_ptr<Policy> make_deepspeed_fused_policy(ParameterReader& parameters) {
  return std::make_unique<DeepSpeedFusedPolicy>(parameters, 0x1p32, 1);
}

std::unique_ptr<Policy> make_deepspeed_unfused_policy(ParameterReader& parameters) {
  return std::make_unique<DeepSpeedFusedPolicy>(parameters, 0x1p16, 0.25);
}

}  // namespace scalewatch::domain

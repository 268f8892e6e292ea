// jmp's DynamicLossScale. Parameters: loss_scale (jmp has no default; 2^15 here), period, factor, min_loss_scale,
// max_scale (largest finite value of the scale's dtype; 65504 where the scale is an fp16 array).
#include <algorithm>
#include <limits>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class JmpPolicy : public Policy {
 public:
  explicit JmpPolicy(ParameterReader& parameters)
      : Policy(static_cast<float>(parameters.positive({"loss_scale", "init_scale"}, 0x1p15))),
        period_(parameters.count({"period"}, 2000)),
        factor_(parameters.positive({"factor"}, 2)),
        floor_(static_cast<float>(parameters.positive({"min_loss_scale"}, 1))),
        ceiling_(parameters.positive({"max_scale"}, std::numeric_limits<float>::max())) {}

  [[nodiscard]] double growth_factor() const override { return factor_; }
  [[nodiscard]] double backoff_factor() const override { return 1 / factor_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return period_; }
  [[nodiscard]] std::optional<double> floor() const override { return floor_; }
  [[nodiscard]] std::optional<double> ceiling() const override { return ceiling_; }

 protected:
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      const float lowered = static_cast<float>(state.scale) / static_cast<float>(factor_);
      state.scale = std::max(static_cast<double>(lowered), floor_);
      state.clean = 0;
    } else if (++state.clean == period_) {
      const double grown = times_fp32(state.scale, factor_);
      if (grown <= ceiling_) state.scale = grown;
      state.clean = 0;
    }
  }

 private:
  std::int64_t period_;
  double factor_;
  double floor_;
  double ceiling_;
};

}  // namespace

std::unique_ptr<Policy> make_jmp_policy(ParameterReader& parameters) {
  return std::make_unique<JmpPolicy>(parameters);
}

}  // namespace scalewatch::domain

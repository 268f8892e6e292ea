// Megatron's DynamicGradScaler. Parameters: initial_scale, min_scale, growth_factor, backoff_factor, growth_interval,
// hysteresis.
#include <algorithm>
#include <limits>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class MegatronPolicy : public Policy {
 public:
  explicit MegatronPolicy(ParameterReader& parameters)
      : Policy(static_cast<float>(parameters.positive({"initial_scale", "init_scale", "initial_loss_scale"}, 0x1p32))),
        floor_(static_cast<float>(parameters.positive({"min_scale", "min_loss_scale"}, 1))),
        growth_(parameters.positive({"growth_factor"}, 2)),
        backoff_(parameters.positive({"backoff_factor"}, 0.5)),
        interval_(parameters.count({"growth_interval", "loss_scale_window"}, 1000)),
        hysteresis_(parameters.hysteresis({"hysteresis"}, 2)) {
    state_.hysteresis = hysteresis_;
  }

  [[nodiscard]] std::int32_t hysteresis() const override { return hysteresis_; }
  [[nodiscard]] double growth_factor() const override { return growth_; }
  [[nodiscard]] double backoff_factor() const override { return backoff_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return interval_; }
  [[nodiscard]] std::optional<double> floor() const override { return floor_; }

 protected:
  // Only growth refills the hysteresis, so overflows need not be consecutive; it falls below zero as they go on.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.clean = 0;
      if (state.hysteresis > std::numeric_limits<std::int32_t>::min()) --state.hysteresis;
      if (state.hysteresis <= 0) state.scale = std::max(times_fp32(state.scale, backoff_), floor_);
    } else if (++state.clean == interval_) {
      state.clean = 0;
      state.hysteresis = hysteresis_;
      state.scale = times_fp32(state.scale, growth_);
    }
  }
  [[nodiscard]] bool has_hysteresis() const override { return true; }

 private:
  double floor_;
  double growth_;
  double backoff_;
  std::int64_t interval_;
  std::int32_t hysteresis_;
};

}  // namespace

std::unique_ptr<Policy> make_megatron_policy(ParameterReader& parameters) {
  return std::make_unique<MegatronPolicy>(parameters);
}

}  // namespace scalewatch::domain

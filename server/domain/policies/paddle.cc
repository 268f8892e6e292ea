// Paddle's GradScaler: the dygraph path, which prints, and the kernel of static graphs, which has a floor of 1 and never grows
// to Inf. Parameters: init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps, decr_every_n_nan_or_inf (older
// versions: 2^15, 2, 0.5, 1000, 2).
#include <algorithm>
#include <cmath>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class PaddlePolicy : public Policy {
 public:
  PaddlePolicy(ParameterReader& parameters, bool kernel)
      : Policy(static_cast<float>(parameters.positive({"init_loss_scaling", "init_scale"}, 0x1p16))),
        kernel_(kernel),
        growth_(parameters.positive({"incr_ratio"}, 2)),
        backoff_(parameters.positive({"decr_ratio"}, 0.5)),
        interval_(parameters.count({"incr_every_n_steps"}, 2000)),
        hysteresis_(parameters.hysteresis({"decr_every_n_nan_or_inf"}, 1)) {
    state_.hysteresis = hysteresis_;
  }

  [[nodiscard]] std::int32_t hysteresis() const override { return hysteresis_; }
  [[nodiscard]] double growth_factor() const override { return growth_; }
  [[nodiscard]] double backoff_factor() const override { return backoff_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return interval_; }
  [[nodiscard]] std::optional<double> floor() const override { return kernel_ ? std::optional(1.0) : std::nullopt; }

 protected:
  // Overflows must be consecutive: a clean attempt refills the hysteresis, and so does a backoff.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.clean = 0;
      if (--state.hysteresis <= 0) {
        state.scale = times_fp32(state.scale, backoff_);
        if (kernel_) state.scale = std::max(state.scale, 1.0);
        state.hysteresis = hysteresis_;
      }
      return;
    }
    state.hysteresis = hysteresis_;
    if (++state.clean == interval_) {
      const double grown = times_fp32(state.scale, growth_);
      if (!kernel_ || std::isfinite(grown)) state.scale = grown;
      state.clean = 0;
    }
  }
  [[nodiscard]] bool has_hysteresis() const override { return true; }

 private:
  bool kernel_;
  double growth_;
  double backoff_;
  std::int64_t interval_;
  std::int32_t hysteresis_;
};

}  // namespace

std::unique_ptr<Policy> make_paddle_policy(ParameterReader& parameters) {
  return std::make_unique<PaddlePolicy>(parameters, false);
}

std::unique_ptr<Policy> make_paddle_static_policy(ParameterReader& parameters) {
  return std::make_unique<PaddlePolicy>(parameters, true);
}

}  // namespace scalewatch::domain

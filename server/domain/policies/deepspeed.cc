// DeepSpeed ZeRO's DynamicLossScaler. Parameters: init_scale, scale_factor, scale_window, min_scale, delayed_shift,
// consecutive_hysteresis, raise_error_at_min_scale; also by the names of DeepSpeed's configuration file.
#include <algorithm>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class DeepSpeedPolicy : public Policy {
 public:
  explicit DeepSpeedPolicy(ParameterReader& parameters)
      : Policy(parameters.positive({"init_scale"}, 0x1p16)),
        factor_(parameters.positive({"scale_factor"}, 2)),
        window_(parameters.count({"scale_window", "loss_scale_window"}, 1000)),
        floor_(parameters.positive({"min_scale", "min_loss_scale"}, 1)),
        hysteresis_(parameters.hysteresis({"delayed_shift", "hysteresis"}, 2)),
        consecutive_(parameters.flag({"consecutive_hysteresis"}, false)),
        raises_(parameters.flag({"raise_error_at_min_scale"}, true)) {
    state_.hysteresis = hysteresis_;
  }

  [[nodiscard]] std::int32_t hysteresis() const override { return hysteresis_; }
  [[nodiscard]] double growth_factor() const override { return factor_; }
  [[nodiscard]] double backoff_factor() const override { return 1 / factor_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return window_; }
  [[nodiscard]] std::optional<double> floor() const override { return floor_; }

 protected:
  // `clean` counts from the last overflow and goes on through growths; the first growth takes one clean attempt more than the
  // window.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      const bool falls = state.hysteresis <= 1;
      if (falls && raises_ && state.scale == floor_) {
        state.ended = true;
        return;
      }
      if (falls) {
        state.scale = std::max(state.scale / factor_, floor_);
      } else {
        --state.hysteresis;
      }
      state.clean = 0;
      return;
    }
    const std::int64_t stable = state.clean++;
    const bool grows = stable > 0 && stable % window_ == 0;
    if (consecutive_ || grows) state.hysteresis = hysteresis_;
    if (grows) state.scale *= factor_;
  }
  [[nodiscard]] bool has_hysteresis() const override { return true; }
  [[nodiscard]] std::string fatal_words() const override {
    return "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.";
  }

 private:
  double factor_;
  std::int64_t window_;
  double floor_;
  std::int32_t hysteresis_;
  bool consecutive_;
  bool raises_;
};

}  // namespace

std::unique_ptr<Policy> make_deepspeed_policy(ParameterReader& parameters) {
  return std::make_unique<DeepSpeedPolicy>(parameters);
}

}  // namespace scalewatch::domain

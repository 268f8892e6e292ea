// Apex FP16_Optimizer's DynamicLossScaler, from before amp, and NVIDIA's example copies of it.
// Parameters: init_scale, scale_factor, scale_window.
#include <algorithm>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class ApexFp16OptimizerPolicy : public Policy {
 public:
  explicit ApexFp16OptimizerPolicy(ParameterReader& parameters)
      : Policy(parameters.positive({"init_scale"}, 0x1p32)),
        factor_(parameters.positive({"scale_factor"}, 2)),
        window_(parameters.count({"scale_window"}, 1000)) {}

  [[nodiscard]] double growth_factor() const override { return factor_; }
  [[nodiscard]] double backoff_factor() const override { return 1 / factor_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return window_; }
  [[nodiscard]] std::optional<double> floor() const override { return 1; }

 protected:
  // `clean` counts from the last overflow and goes on through growths.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = std::max(state.scale / factor_, 1.0);
      state.clean = 0;
    } else if (++state.clean % window_ == 0) {
      state.scale *= factor_;
    }
  }

 private:
  double factor_;
  std::int64_t window_;
};

}  // namespace

std::unique_ptr<Policy> make_apex_fp16_optimizer_policy(ParameterReader& parameters) {
  return std::make_unique<ApexFp16OptimizerPolicy>(parameters);
}

}  // namespace scalewatch::domain

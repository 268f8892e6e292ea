// Apex amp's LossScaler, one for each loss_id. Parameters: init_scale, scale_window, min_loss_scale (0: none), max_loss_scale.
#include <algorithm>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class ApexAmpPolicy : public Policy {
 public:
  ApexAmpPolicy(double init, double ceiling, ParameterReader& parameters)
      : Policy(std::min(init, ceiling)),
        floor_(parameters.bound({"min_loss_scale"}, std::nullopt)),
        ceiling_(ceiling),
        window_(parameters.count({"scale_window"}, 2000)) {}

  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return window_; }
  [[nodiscard]] std::optional<double> floor() const override { return floor_; }
  [[nodiscard]] std::optional<double> ceiling() const override { return ceiling_; }

 protected:
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = std::max(state.scale / 2, floor_.value_or(0));
      state.clean = 0;
    } else if (++state.clean == window_) {
      state.scale = std::min(state.scale * 2, ceiling_);
      state.clean = 0;
    }
  }

 private:
  std::optional<double> floor_;
  double ceiling_;
  std::int64_t window_;
};

}  // namespace

std::unique_ptr<Policy> make_apex_amp_policy(ParameterReader& parameters) {
  const double init = parameters.positive({"init_scale"}, 0x1p16);
  const double ceiling = parameters.positive({"max_loss_scale"}, 0x1p24);
  return std::make_unique<ApexAmpPolicy>(init, ceiling, parameters);
}

}  // namespace scalewatch::domain

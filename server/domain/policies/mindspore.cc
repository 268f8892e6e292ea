// MindSpore's DynamicLossScaleManager. Parameters: init_loss_scale, scale_factor, scale_window.
#include <algorithm>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

constexpr std::int64_t kMostOverflows = 1000;  // in a row, before it raises

class MindSporePolicy : public Policy {
 public:
  explicit MindSporePolicy(ParameterReader& parameters)
      : Policy(parameters.positive({"init_loss_scale", "init_scale"}, 0x1p24)),
        factor_(parameters.positive({"scale_factor"}, 2)),
        window_(parameters.count({"scale_window"}, 2000)) {}

  [[nodiscard]] double growth_factor() const override { return factor_; }
  [[nodiscard]] double backoff_factor() const override { return 1 / factor_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return window_; }
  [[nodiscard]] std::optional<double> floor() const override { return 1; }

 protected:
  // `clean` counts from the last overflow and goes on through growths.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = std::max(state.scale * (1 / factor_), 1.0);
      state.clean = 0;
      state.ended = ++state.overflows > kMostOverflows;
      return;
    }
    if (++state.clean % window_ == 0) state.scale *= factor_;
    state.overflows = 0;
  }
  [[nodiscard]] std::string fatal_words() const override {
    return "Dynamic loss scale Continuous overflow " + std::to_string(kMostOverflows + 1) + " times";
  }

 private:
  double factor_;
  std::int64_t window_;
};

}  // namespace

std::unique_ptr<Policy> make_mindspore_policy(ParameterReader& parameters) {
  return std::make_unique<MindSporePolicy>(parameters);
}

}  // namespace scalewatch::domain

// A fixed loss scale: overflows are skipped, the scale stays. Parameter: init_scale (or loss_scale).
#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class StaticPolicy : public Policy {
 public:
  explicit StaticPolicy(const PolicyParameters& parameters)
      : scale_(parameter_or(parameters, "init_scale", parameter_or(parameters, "loss_scale", 1))) {}
  double update(bool /*found_inf*/) override { return scale_; }
  [[nodiscard]] double scale() const override { return scale_; }
  [[nodiscard]] double init_scale() const override { return scale_; }
  [[nodiscard]] bool dynamic() const override { return false; }
  [[nodiscard]] std::optional<double> floor() const override { return scale_; }
  [[nodiscard]] std::optional<double> ceiling() const override { return scale_; }

 private:
  double scale_;
};

}  // namespace

std::unique_ptr<Policy> make_static_policy(const PolicyParameters& parameters) {
  return std::make_unique<StaticPolicy>(parameters);
}

}  // namespace scalewatch::domain

// A fixed loss scale: overflows are skipped, the scale stays. Parameter: init_scale (or loss_scale).
#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class StaticPolicy : public Policy {
 public:
  explicit StaticPolicy(ParameterReader& parameters) : Policy(parameters.positive({"init_scale", "loss_scale"}, 1)) {}
  [[nodiscard]] bool dynamic() const override { return false; }
  [[nodiscard]] std::optional<double> floor() const override { return scale(); }
  [[nodiscard]] std::optional<double> ceiling() const override { return scale(); }

 protected:
  void next(PolicyState& /*state*/, bool /*found_inf*/) const override {}
};

}  // namespace

std::unique_ptr<Policy> make_static_policy(ParameterReader& parameters) {
  return std::make_unique<StaticPolicy>(parameters);
}

}  // namespace scalewatch::domain

// No scaler: gradients are as they are, and nothing keeps a non-finite one from the weights. No parameters.
#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class NoPolicy : public Policy {
 public:
  NoPolicy() : Policy(1) {}
  [[nodiscard]] bool dynamic() const override { return false; }
  [[nodiscard]] bool guards() const override { return false; }

 protected:
  void next(PolicyState& /*state*/, bool /*found_inf*/) const override {}
};

}  // namespace

std::unique_ptr<Policy> make_none_policy(ParameterReader& /*parameters*/) {
  return std::make_unique<NoPolicy>();
}

}  // namespace scalewatch::domain

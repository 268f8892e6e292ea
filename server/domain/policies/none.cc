// No scaler: gradients are as they are, and nothing keeps a non-finite one from the weights.
#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class NoPolicy : public Policy {
 public:
  double update(bool /*found_inf*/) override { return 1; }
  [[nodiscard]] double scale() const override { return 1; }
  [[nodiscard]] double init_scale() const override { return 1; }
  [[nodiscard]] bool dynamic() const override { return false; }
  [[nodiscard]] bool guards() const override { return false; }
};

}  // namespace

std::unique_ptr<Policy> make_none_policy(const PolicyParameters& /*parameters*/) {
  return std::make_unique<NoPolicy>();
}

}  // namespace scalewatch::domain

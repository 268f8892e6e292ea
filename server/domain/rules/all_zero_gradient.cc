// Tensors that the optimizer steps and whose gradient stays zero while others do not: nothing trains them.
#include <fmt/core.h>

#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

class AllZeroGradient : public JoinedTensorRule {
 public:
  AllZeroGradient() : JoinedTensorRule(TensorRule::kAllZeroGradient, "AllZeroGradient") {}

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    draft.severity = Severity::kWarning;
    draft.summary = fmt::format("{} {} been all zero for {} samples or more while other gradients are not", faults.text(),
                                faults.verb("has", "have"), context.thresholds.all_zero_gradient_samples);
    draft.evidence = {{"samples", static_cast<double>(context.thresholds.all_zero_gradient_samples), "samples",
                       static_cast<double>(context.thresholds.all_zero_gradient_samples)},
                      {"parameters_share", faults.share(), "", {}}};
  }
};

}  // namespace

std::unique_ptr<Rule> make_all_zero_gradient() {
  return std::make_unique<AllZeroGradient>();
}

}  // namespace scalewatch::domain

// One tensor holds most of the gradient norm: clipping by the norm scales all others by it.
#include <fmt/core.h>

#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

class DominantGradient : public JoinedTensorRule {
 public:
  DominantGradient() : JoinedTensorRule(TensorRule::kDominantGradient, "DominantGradient") {}

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    draft.severity = Severity::kInfo;
    draft.summary =
        fmt::format("{} {} {}% of the squared gradient norm (limit {}%)", faults.text(), faults.verb("holds", "hold up to"),
                    number_text(percent(faults.value())), number_text(percent(context.thresholds.dominant_gradient_share)));
    draft.evidence = {{"norm_share", faults.value(), "", context.thresholds.dominant_gradient_share}};
  }
};

}  // namespace

std::unique_ptr<Rule> make_dominant_gradient() {
  return std::make_unique<DominantGradient>();
}

}  // namespace scalewatch::domain

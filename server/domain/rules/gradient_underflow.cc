// Gradients that fp16 or fp8 can no longer hold: subnormal, gone to zero, or all of them zero.
#include <fmt/core.h>

#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

class GradientUnderflow : public JoinedTensorRule {
 public:
  GradientUnderflow() : JoinedTensorRule(TensorRule::kGradientUnderflow, "GradientUnderflow") {}

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    const Thresholds& t = context.thresholds;
    const double share = faults.share();
    const bool room =
        !faults.limiting.empty() && faults.headroom >= t.underflow_headroom && share >= t.underflow_min_parameters;
    draft.severity = faults.all_zero || room || share >= t.underflow_parameters ? Severity::kWarning : Severity::kInfo;
    if (faults.all_zero) {
      draft.summary = fmt::format("every one of {} gradients is zero while the loss is finite", faults.tensors);
    } else {
      draft.summary =
          fmt::format("{} {}: {}% of what the worst held is subnormal or gone; {}% of the parameters are concerned (limit {}%)",
                      faults.text(), faults.verb("underflows", "underflow"), number_text(percent(faults.value())),
                      number_text(percent(share)), number_text(percent(t.underflow_parameters)));
    }
    draft.evidence = {{"lost_share", faults.all_zero ? 1 : faults.value(), "", t.underflow_subnormal_share},
                      {"parameters_share", share, "", t.underflow_parameters},
                      {"all_zero", faults.all_zero ? 1.0 : 0.0, "", {}}};
    if (!faults.limiting.empty()) {
      draft.summary += fmt::format("; {} has the least headroom, {} octaves", faults.limiting, octaves_text(faults.headroom));
      draft.evidence.push_back({"limiting_headroom", faults.headroom, "octaves", t.underflow_headroom});
    }
  }
};

}  // namespace

std::unique_ptr<Rule> make_gradient_underflow() {
  return std::make_unique<GradientUnderflow>();
}

}  // namespace scalewatch::domain

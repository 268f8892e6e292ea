// Values beyond the largest of an fp8 format before the cast, which clamps them and shows no Inf.
#include <fmt/core.h>

#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

class Fp8Saturation : public JoinedTensorRule {
 public:
  Fp8Saturation() : JoinedTensorRule(TensorRule::kFp8Saturation, "Fp8Saturation") {}

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    draft.severity = Severity::kWarning;
    draft.summary = fmt::format("{} {} in fp8: {} elements were beyond the format in {} of {} samples or more", faults.text(),
                                faults.verb("saturates", "saturate"), number_text(faults.value()),
                                context.thresholds.fp8_saturation_samples, context.thresholds.tensor_window);
    draft.evidence = {{"saturated", faults.value(), "elements", {}}};
  }
};

}  // namespace

std::unique_ptr<Rule> make_fp8_saturation() {
  return std::make_unique<Fp8Saturation>();
}

}  // namespace scalewatch::domain

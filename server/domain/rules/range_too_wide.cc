// Values of one fp16 tensor that no scale fits: some close to overflow, others subnormal.
#include <fmt/core.h>

#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

class RangeTooWide : public JoinedTensorRule {
 public:
  RangeTooWide() : JoinedTensorRule(TensorRule::kRangeTooWide, "RangeTooWide") {}

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    draft.severity = Severity::kWarning;
    draft.summary = fmt::format(
        "{} more than fp16 holds: {}% of {} non-zero elements are subnormal (limit {}%) with less than {} octaves of headroom",
        faults.text() + faults.verb(" spans", " span"), number_text(percent(faults.value())), faults.verb("its", "the worst's"),
        number_text(percent(context.thresholds.range_too_wide_share)), number_text(context.thresholds.range_too_wide_octaves));
    draft.evidence = {{"subnormal_share", faults.value(), "", context.thresholds.range_too_wide_share}};
  }
};

}  // namespace

std::unique_ptr<Rule> make_range_too_wide() {
  return std::make_unique<RangeTooWide>();
}

}  // namespace scalewatch::domain

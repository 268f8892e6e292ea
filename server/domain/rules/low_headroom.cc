// fp16 activations close to overflow (and gradients under a scale that never moves).
#include <fmt/core.h>

#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

class LowHeadroom : public JoinedTensorRule {
 public:
  LowHeadroom() : JoinedTensorRule(TensorRule::kLowHeadroom, "LowHeadroom") {}

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    const double headroom = context.thresholds.low_headroom_octaves - faults.value();
    draft.severity = Severity::kWarning;
    draft.summary =
        fmt::format("{} {} {} octaves of headroom in fp16 (limit {})", faults.text(), faults.verb("has", "have as little as"),
                    octaves_text(headroom), number_text(context.thresholds.low_headroom_octaves));
    draft.evidence = {{"headroom", headroom, "octaves", context.thresholds.low_headroom_octaves}};
  }
};

}  // namespace

std::unique_ptr<Rule> make_low_headroom() {
  return std::make_unique<LowHeadroom>();
}

}  // namespace scalewatch::domain

// Adam's second moment is zero where the gradient is not, or its eps is zero in the state's own format: the update divides by
// (nearly) nothing.
#include <fmt/core.h>

#include "cuda/record/format.h"
#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

std::string_view format_name(DType dtype) {
  switch (dtype) {
    case DType::kFp16:
      return "fp16";
    case DType::kBf16:
      return "bf16";
    case DType::kE4m3fn:
      return "fp8 e4m3fn";
    case DType::kE5m2:
      return "fp8 e5m2";
    case DType::kFp32:
      return "fp32";
    case DType::kFp64:
    case DType::kUnspecified:
      break;
  }
  return "fp64";
}

class OptimizerStateUnderflow : public JoinedTensorRule {
 public:
  OptimizerStateUnderflow() : JoinedTensorRule(TensorRule::kOptimizerStateUnderflow, "OptimizerStateUnderflow") {}

  [[nodiscard]] bool only_tensor_faults() const override { return false; }
  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    JoinedTensorRule::on_attempt(attempt, context);
    // Configured once and alike on all ranks: the lowest that reports speaks for them.
    const RankInfo* rank = attempt.joined.reports.empty() ? nullptr : context.run.rank(attempt.joined.reports.front().rank);
    if (rank == nullptr) return;
    for (const OptimizerInfo& optimizer : rank->optimizers) look_at_eps(optimizer, attempt, context);
  }

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    draft.severity = Severity::kWarning;
    draft.summary = fmt::format("{} {} {}% of the elements whose gradient is not (limit {}%)", faults.text(),
                                faults.verb("is zero for", "are zero for up to"), number_text(percent(faults.value())),
                                number_text(percent(context.thresholds.optimizer_state_underflow_share)));
    draft.evidence = {{"zero_share", faults.value(), "", context.thresholds.optimizer_state_underflow_share}};
  }

 private:
  void look_at_eps(const OptimizerInfo& optimizer, const ClosedAttempt& attempt, const RuleContext& context) const {
    if (!optimizer.eps || !(*optimizer.eps > 0)) return;
    const std::string subject = (optimizer.name.empty() ? "optimizer" : optimizer.name) + ".eps";
    if (context.sink.find(name(), subject) != nullptr) return;
    for (const DType dtype : optimizer.state_dtypes) {
      const double flush = format_limits(dtype).flush.value();
      if (*optimizer.eps > flush) continue;
      Draft draft;
      draft.rule = name();
      draft.subject = subject;
      draft.severity = Severity::kWarning;
      draft.first_attempt = draft.attempt = attempt.attempt();
      draft.first_step = draft.step = attempt.step();
      draft.summary = fmt::format("eps {} of {} is zero in {}, the format of its state", number_text(*optimizer.eps),
                                  optimizer.name.empty() ? "the optimizer" : optimizer.name, format_name(dtype));
      draft.evidence = {{"eps", *optimizer.eps, "", flush}};
      context.sink.raise(std::move(draft));
      return;
    }
  }
};

}  // namespace

std::unique_ptr<Rule> make_optimizer_state_underflow() {
  return std::make_unique<OptimizerStateUnderflow>();
}

}  // namespace scalewatch::domain

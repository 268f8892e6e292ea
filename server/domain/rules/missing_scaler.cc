// fp16 computation without a loss scaler: small gradients are lost, and the first Inf goes into the weights.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class MissingScaler : public StatelessRule<MissingScaler> {
 public:
  [[nodiscard]] std::string_view name() const override { return "MissingScaler"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    const RunModel& run = context.run;
    const bool guarded = std::any_of(run.scalers.begin(), run.scalers.end(), [](const ScalerTrack& t) { return t.guards; });
    if (guarded || run.compute_dtype != DType::kFp16) {
      context.sink.resolve(name(), {});
      return;
    }
    if (!attempt.training) return;
    const Finding* open = context.sink.find(name(), {});
    Draft draft;
    draft.rule = name();
    draft.first_attempt = open != nullptr ? open->first_attempt : attempt.attempt();
    draft.first_step = open != nullptr ? open->first_step : attempt.step();
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.summary =
        "the computation runs in fp16 and no loss scaler is in use: gradients under 2^-24 are lost, and nothing keeps a "
        "non-finite one from the weights";
    draft.evidence = {{"scalers", static_cast<double>(run.scalers.size()), "", {}}};
    context.sink.raise(std::move(draft));
  }
};

}  // namespace

std::unique_ptr<Rule> make_missing_scaler() {
  return std::make_unique<MissingScaler>();
}

}  // namespace scalewatch::domain

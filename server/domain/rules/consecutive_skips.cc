// An optimizer that had been applied is skipped several times in a row.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class ConsecutiveSkips : public PersistedRule<ConsecutiveSkips> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ConsecutiveSkips"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    const ScalerTrack& scaler = *step.scaler;
    for (const OptimizerStep& part : step.optimizers) {
      const OptimizerTrack& optimizer = scaler.optimizers[part.track];
      if (optimizer.calibrating || part.outcome == Outcome::kUnknown) continue;
      const bool few = optimizer.consecutive_skips < context.thresholds.consecutive_skips;
      if (few && episodes_.none()) continue;
      const std::string subject = optimizer_subject(scaler, optimizer);
      if (few) {
        if (episodes_.clean(subject, context.thresholds.consecutive_skips_resolve)) context.sink.resolve(name(), subject);
        continue;
      }
      episodes_.fired(subject);
      Draft draft;
      draft.rule = name();
      draft.subject = subject;
      draft.severity = Severity::kCritical;
      draft.first_attempt = optimizer.streak_first_attempt;
      draft.first_step = optimizer.streak_first_step;
      draft.attempt = step.attempt;
      draft.step = step.step;
      draft.words = [skips = optimizer.consecutive_skips, limit = context.thresholds.consecutive_skips,
                     scale = scaler.scale](Finding& finding) {
        finding.summary =
            fmt::format("{} attempts in a row were skipped by {}, the limit is {}", skips, scaler_text(finding.subject), limit);
        finding.evidence = {{"consecutive_skips", static_cast<double>(skips), "attempts", static_cast<double>(limit)}};
        if (scale) finding.evidence.push_back({"scale", *scale, "", {}});
      };
      draft.blames_skips = true;
      context.sink.raise(std::move(draft));
    }
  }

  template <class A>
  void persist(A& a) {
    a(episodes_);
  }

 private:
  Episodes episodes_;
};

}  // namespace

std::unique_ptr<Rule> make_consecutive_skips() {
  return std::make_unique<ConsecutiveSkips>();
}

}  // namespace scalewatch::domain

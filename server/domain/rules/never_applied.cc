// Nothing was ever applied, and the search for a scale can't explain it any more.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class NeverApplied : public StatelessRule<NeverApplied> {
 public:
  [[nodiscard]] std::string_view name() const override { return "NeverApplied"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    for (const OptimizerStep& part : step.optimizers) {
      const OptimizerTrack& optimizer = step.scaler->optimizers[part.track];
      if (optimizer.applied > 0) {
        // Only the first that is applied can end it.
        const std::uint64_t now = step.passed + (part.outcome == Outcome::kApplied ? 1 : 0);
        if (optimizer.applied > now) continue;
        context.sink.resolve(name(), optimizer_subject(*step.scaler, optimizer));
        continue;
      }
      if (part.outcome == Outcome::kSkipped) look(*step.scaler, optimizer, step.attempt, step.step, false, context);
    }
  }

  void on_end(const RuleContext& context) override {
    for (const ScalerTrack& scaler : context.run.scalers) {
      for (const OptimizerTrack& optimizer : scaler.optimizers) {
        if (optimizer.applied == 0) look(scaler, optimizer, scaler.last_attempt, context.run.last_step, true, context);
      }
    }
  }

 private:
  static constexpr std::uint64_t kFew = 3;

  void look(const ScalerTrack& scaler, const OptimizerTrack& optimizer, Attempt attempt, std::int64_t step, bool ended,
            const RuleContext& context) const {
    const double allowed = std::max(0.0, scaler.init > 0 ? std::log2(scaler.init) : 0.0) + scaler.hysteresis +
                           context.thresholds.never_applied_slack;
    // Of a log that begins in the middle nobody knows what was applied before.
    if (scaler.from_log && !optimizer.calibrating) return;
    const std::uint64_t skipped = optimizer.unseen_skips + optimizer.skipped;
    const auto attempts = static_cast<double>(skipped);
    const double scale = scaler.scale.value_or(scaler.init);
    // A scaler that was configured there has not come down to it.
    // A log may begin anywhere, and what comes next may have been applied.
    const bool few = scaler.from_log && skipped < kFew;
    const bool down = scaler.dynamic && scale < scaler.init && scale <= std::max(1.0, scaler.floor) && !few;
    const bool too_many = attempts > allowed;
    const bool at_end = ended && attempts >= context.thresholds.never_applied_at_end;
    if (!too_many && !down && !at_end) return;
    const std::string subject = optimizer_subject(scaler, optimizer);
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = too_many || down ? Severity::kCritical : Severity::kWarning;
    draft.first_attempt = optimizer.first_attempt;
    draft.first_step = optimizer.first_step;
    draft.attempt = attempt;
    draft.step = step;
    draft.summary = fmt::format("{} has applied none of {} attempts", scaler_text(subject), skipped);
    if (optimizer.unseen_skips > 0) {  // its reader counts fewer lines
      draft.summary += fmt::format(" ({} of them, by the log's own count, before its first line)", optimizer.unseen_skips);
    }
    if (too_many) {
      draft.summary +=
          fmt::format("; from an initial scale of {} at most {} are explained", scale_text(scaler.init), number_text(allowed));
    } else {
      draft.summary += down ? fmt::format(", and its scale is down to {}", scale_text(scale))
                            : fmt::format(" when the {} ended", scaler.from_log ? "log" : "run");
    }
    const double limit = too_many || down ? allowed : static_cast<double>(context.thresholds.never_applied_at_end);
    draft.evidence = {{"attempts", attempts, "attempts", limit},
                      {"applied", 0, "attempts", {}},
                      {"init_scale", scaler.init, "", {}},
                      {"scale", scale, "", std::max(1.0, scaler.floor)}};
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }
};

}  // namespace

std::unique_ptr<Rule> make_never_applied() {
  return std::make_unique<NeverApplied>();
}

}  // namespace scalewatch::domain

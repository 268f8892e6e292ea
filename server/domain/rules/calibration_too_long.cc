// The search for a scale took long: what the initial scale has cost.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class CalibrationTooLong : public PersistedRule<CalibrationTooLong> {
 public:
  [[nodiscard]] std::string_view name() const override { return "CalibrationTooLong"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    const ScalerTrack& scaler = *step.scaler;
    for (const OptimizerStep& part : step.optimizers) {
      const OptimizerTrack& optimizer = scaler.optimizers[part.track];
      const bool searching = part.was_calibrating || part.search_ended;
      if (!searching && episodes_.none()) continue;
      const std::string subject = optimizer_subject(scaler, optimizer);
      if (searching) {
        const TimeMs began = began_.try_emplace(subject, context.run.now).first->second;
        if (!part.search_ended) continue;
        began_.erase(subject);
        if (optimizer.unseen_skips + optimizer.skipped > context.thresholds.calibration_skips) {
          fire(step, optimizer, subject, began, context);
        }
      } else if (part.outcome != Outcome::kUnknown && episodes_.clean(subject, context.thresholds.event_resolve)) {
        context.sink.resolve(name(), subject);
      }
    }
  }

  template <class A>
  void persist(A& a) {
    a(episodes_, began_);
  }

 private:
  void fire(const ScalerStep& step, const OptimizerTrack& optimizer, const std::string& subject, TimeMs began,
            const RuleContext& context) {
    episodes_.fired(subject);
    const ScalerTrack& scaler = *step.scaler;
    const auto skipped = static_cast<double>(optimizer.unseen_skips + optimizer.skipped);
    const double seconds = static_cast<double>(std::max<TimeMs>(0, context.run.now - began)) / 1000;
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = Severity::kInfo;
    draft.first_attempt = optimizer.first_attempt;
    draft.first_step = optimizer.first_step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    draft.summary = fmt::format("{} skipped {} attempts ({} s) before it found a scale: it started from {} and works at {}",
                                scaler_text(subject), number_text(skipped), number_text(seconds), scale_text(scaler.init),
                                scale_text(step.scale_before.value_or(scaler.scale.value_or(scaler.init))));
    draft.evidence = {{"skipped", skipped, "attempts", static_cast<double>(context.thresholds.calibration_skips)},
                      {"time", seconds, "seconds", {}},
                      {"init_scale", scaler.init, "", {}}};
    if (step.scale_before) draft.evidence.push_back({"scale", *step.scale_before, "", {}});
    context.sink.raise(std::move(draft));
  }

  Episodes episodes_;
  std::map<std::string, TimeMs> began_;  // searches that go on
};

}  // namespace

std::unique_ptr<Rule> make_calibration_too_long() {
  return std::make_unique<CalibrationTooLong>();
}

}  // namespace scalewatch::domain

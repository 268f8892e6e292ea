// Skips beyond what the scaler's own growth explains, over the last attempts after calibration.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class FrequentSkippedSteps : public StatelessRule<FrequentSkippedSteps> {
 public:
  [[nodiscard]] std::string_view name() const override { return "FrequentSkippedSteps"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    const ScalerTrack& scaler = *step.scaler;
    if (!step.after_calibration) return;
    const Thresholds& t = context.thresholds;
    const auto window = static_cast<double>(scaler.window.size());
    const double excess =
        scaler.window_skipped - static_cast<double>(scaler.hysteresis) * (static_cast<double>(scaler.window_grew) + 1);
    const double limit = std::max<double>(t.frequent_skips_min_excess, t.frequent_skips_excess_share * window);
    const bool open = context.sink.find(name(), scaler.info.name) != nullptr;
    if (excess < limit) {
      if (open && excess < limit * t.frequent_skips_resolve_share) context.sink.resolve(name(), scaler.info.name);
      return;
    }
    const double share = scaler.skip_ratio();
    Draft draft;
    draft.rule = name();
    draft.subject = scaler.info.name;
    draft.severity = share > t.frequent_skips_critical_share ? Severity::kCritical : Severity::kWarning;
    const auto first = std::find_if(scaler.window.begin(), scaler.window.end(), [](const WindowItem& i) { return i.skipped; });
    draft.first_attempt = first->attempt;
    draft.first_step = first->step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    draft.words = [=, skipped = scaler.window_skipped, size = scaler.window.size(), grew = scaler.window_grew,
                   hysteresis = scaler.hysteresis, scale = scaler.scale,
                   critical = t.frequent_skips_critical_share](Finding& finding) {
      finding.summary = fmt::format("{} of the last {} attempts were skipped by {}; its growth explains {}", skipped, size,
                                    scaler_text(finding.subject), hysteresis * (static_cast<std::int64_t>(grew) + 1));
      finding.evidence = {{"skipped", static_cast<double>(skipped), "attempts", {}},
                          {"window", window, "attempts", {}},
                          {"growths", static_cast<double>(grew), "", {}},
                          {"excess", excess, "attempts", limit},
                          {"skip_ratio", share, "", critical}};
      if (scale) finding.evidence.push_back({"scale", *scale, "", {}});
    };
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }
};

}  // namespace

std::unique_ptr<Rule> make_frequent_skipped_steps() {
  return std::make_unique<FrequentSkippedSteps>();
}

}  // namespace scalewatch::domain

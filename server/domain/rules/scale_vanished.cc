// The scale is 0, or so small that its inverse is not a number to multiply with.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class ScaleVanished : public StatelessRule<ScaleVanished> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ScaleVanished"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    const auto now = step.scale_after ? step.scale_after : step.scale_before;
    if (!now || std::isnan(*now)) return;
    const std::string& subject = step.scaler->info.name;
    if (*now >= context.thresholds.vanished_below) {
      context.sink.resolve(name(), subject);
      return;
    }
    const Finding* open = context.sink.find(name(), subject);
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = Severity::kCritical;
    draft.first_attempt = open != nullptr ? open->first_attempt : step.attempt;
    draft.first_step = open != nullptr ? open->first_step : step.step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    draft.summary = *now > 0x1p-128
                        ? fmt::format("the scale of {} is {}: subnormal in fp32", scaler_text(subject), scale_text(*now))
                        : fmt::format(
                              "the scale of {} is {}: 1 / scale is Inf, so unscaling makes NaN or Inf of every "
                              "gradient and nothing checks it any more",
                              scaler_text(subject), scale_text(*now));
    draft.evidence = {{"scale", *now, "", context.thresholds.vanished_below}};
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }
};

}  // namespace

std::unique_ptr<Rule> make_scale_vanished() {
  return std::make_unique<ScaleVanished>();
}

}  // namespace scalewatch::domain

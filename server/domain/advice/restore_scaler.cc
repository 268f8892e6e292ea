// Trouble right after a resume.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_restore_scaler(const AdviceContext& context) {
  constexpr Attempt kSoon = 50;
  if (context.rule("ScalePolicyMismatch")) {
    if (!context.finding.subject.ends_with("/reset at resume")) return std::nullopt;
    const auto expected = context.evidence("expected_scale");
    return Advice{
        "restore_scaler",
        fmt::format("save scaler.state_dict() with the checkpoint and load it at resume (and the optimizer's state with "
                    "it): the run had a scale of {} there",
                    expected ? scale_text(*expected) : std::string("its own")),
        0.9};
  }
  // A log that begins far into a run, with the scale that a run starts from.
  const ScalerTrack* begun = context.scaler();
  constexpr std::int64_t kFar = 1000;
  if (context.run.from_log && context.run.first_step.value_or(0) > kFar && begun != nullptr && begun->scale_first &&
      *begun->scale_first == begun->init &&
      context.finding.first_step <= *context.run.first_step + static_cast<std::int64_t>(kSoon) &&
      context.rule_is_one_of("FrequentSkippedSteps", "ConsecutiveSkips", "LossSpike", "ScaleDrift")) {
    return Advice{
        "restore_scaler",
        fmt::format("if step {} is where the run was resumed, its scaler was not: the scale is {} as at a start. Save and "
                    "load scaler.state_dict() (amp.state_dict()) and the optimizer's state, hold the first losses "
                    "against the last before the checkpoint, and warm the learning rate up again",
                    *context.run.first_step, scale_text(begun->init)),
        0.55};
  }
  if (context.run.segment < 2 || context.finding.first_attempt > kSoon) return std::nullopt;
  if (!context.rule_is_one_of("FrequentSkippedSteps", "ConsecutiveSkips", "ScaleCollapse", "NeverApplied", "LossSpike"))
    return std::nullopt;
  const ScalerTrack* scaler = context.scaler();
  const std::string from = scaler != nullptr && scaler->init > 0
                               ? fmt::format(", instead of starting from {} again", scale_text(scaler->init))
                               : std::string();
  return Advice{"restore_scaler",
                fmt::format("restore the scaler at resume (scaler.load_state_dict of the checkpoint){}, and the optimizer's "
                            "state with it: this began "
                            "{} attempts after the restart",
                            from, context.finding.first_attempt),
                0.6};
}

}  // namespace scalewatch::domain

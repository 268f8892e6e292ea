// What the search for a scale costs, and what to set.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_init_scale(const AdviceContext& context) {
  const ScalerTrack* scaler = context.scaler();
  if (scaler == nullptr || !scaler->dynamic || scaler->init <= 0) return std::nullopt;
  if (context.rule("CalibrationTooLong")) {
    const auto found = context.evidence("scale");
    if (!found || !(*found > 0)) return std::nullopt;
    const auto skipped = context.evidence("skipped");
    return Advice{
        "init_scale",
        fmt::format("set init_scale to {}, twice what was found: that saves about {} attempts at every start without a "
                    "checkpoint",
                    scale_text(*found * 2), number_text(std::max(0.0, skipped.value_or(1) - scaler->hysteresis))),
        0.8};
  }
  if (context.rule("NeverApplied") && scaler->init > 0x1p16) {
    return Advice{"init_scale",
                  fmt::format("set init_scale to 2^16 (it is {}): the search for a scale costs an attempt for every halving",
                              scale_text(scaler->init)),
                  context.finding.severity == Severity::kWarning ? 0.6 : 0.3};
  }
  const bool at_start =
      context.rule("NonFiniteGradient") && context.finding.severity >= Severity::kWarning && scaler->calibrating();
  if (!at_start || !scaler->scale || *scaler->scale >= scaler->init) return std::nullopt;
  return Advice{"init_scale",
                fmt::format("set init_scale to {} or less (it is {})", scale_text(*scaler->scale), scale_text(scaler->init)),
                0.5};
}

}  // namespace scalewatch::domain

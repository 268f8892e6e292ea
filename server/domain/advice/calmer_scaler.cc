// A run whose scale is restless or only falls.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_calmer_scaler(const AdviceContext& context) {
  if (!context.rule("ScaleDrift") || context.finding.severity < Severity::kWarning) return std::nullopt;
  const auto rise = context.evidence("norm_rise");
  constexpr double kDoubled = 1;
  if (rise && *rise >= kDoubled) return std::nullopt;  // the gradients are the trouble
  return Advice{"calmer_scaler", "if the loss is fine, make the scaler calmer: init_scale 2^15 and growth_interval 5,000",
                0.35};
}

}  // namespace scalewatch::domain

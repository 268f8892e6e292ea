// Nothing is to be done: what a healthy scaler costs.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_calm(const AdviceContext& context) {
  if (context.finding.severity != Severity::kInfo) return std::nullopt;
  if (context.rule("ScaleDrift")) {
    return Advice{"calm",
                  "nothing to do yet: a few backoffs without a growth are common; look again if the gradient norm rises with "
                  "them",
                  0.6};
  }
  if (context.rule("ScalePolicyMismatch")) {
    return Advice{"calm", "nothing to do if that was meant: the scaler goes on from there", 0.6};
  }
  if (!context.rule("NonFiniteGradient") || context.kind() == "nan") return std::nullopt;
  const ScalerTrack* scaler = context.scaler();
  if (scaler == nullptr || !scaler->dynamic) return std::nullopt;
  if (scaler->calibrating()) {
    return Advice{"calm", "nothing to do: skips before the first applied step are the search for a scale", 0.8};
  }
  return Advice{"calm",
                fmt::format("nothing to do: a dynamic scaler skips about {} {} for each time that its scale grows, and this is "
                            "within that",
                            scaler->hysteresis, scaler->hysteresis == 1 ? "step" : "steps"),
                0.8};
}

}  // namespace scalewatch::domain

// Exploding gradients of a run that had been learning.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_clip_after_unscale(const AdviceContext& context) {
  if (!context.rule_is_one_of("FrequentSkippedSteps", "ConsecutiveSkips", "ScaleCollapse", "GradNormSpike", "ScaleDrift"))
    return std::nullopt;
  if (context.finding.severity < Severity::kWarning) return std::nullopt;
  if (context.where() != "backward" && !context.where().empty()) return std::nullopt;
  const auto norm = context.run.grad_norm;
  return Advice{
      "clip_after_unscale",
      fmt::format("clip the gradient norm after scaler.unscale_(optimizer) and before step(): max_norm 1.0 for transformers, 5 "
                  "to 10 for vision{}; clipping scaled gradients clips by the scale as well",
                  norm ? fmt::format(" (the norm was {} last)", number_text(*norm)) : std::string()),
      context.rule("GradNormSpike") ? 0.45 : 0.38};
}

}  // namespace scalewatch::domain

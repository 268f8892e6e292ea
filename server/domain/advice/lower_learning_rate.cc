// A run that had been learning now overflows: the steps are too large.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_lower_learning_rate(const AdviceContext& context) {
  if (!context.rule_is_one_of("FrequentSkippedSteps", "ConsecutiveSkips", "ScaleCollapse", "NonFiniteLoss", "LossSpike",
                              "GradNormSpike", "ScaleDrift"))
    return std::nullopt;
  if (context.where() == "input" || context.where() == "weights" || context.where() == "reduction") return std::nullopt;
  if (context.finding.severity < Severity::kWarning) return std::nullopt;
  // Nothing was applied yet: the learning rate has had no say.
  const ScalerTrack* scaler = context.scaler();
  if (scaler != nullptr && scaler->calibrating()) return std::nullopt;
  const auto lr = context.run.learning_rate();
  if (context.grew() && lr && *lr > 0) {
    const Blame& blame = *context.finding.blame;
    return Advice{
        "lower_learning_rate",
        fmt::format("lower the learning rate from {} to {} (and again if that is not enough) and warm up longer: {} had "
                    "grown {:.0f} times just before",
                    number_text(*lr), number_text(*lr * 0.25), blame.fastest_falling, std::exp2(blame.octaves_fallen)),
        0.8};
  }
  const double confidence = context.rule("NonFiniteLoss") ? 0.4 : 0.5;
  if (lr && *lr > 0) {
    return Advice{
        "lower_learning_rate",
        fmt::format("lower the learning rate from {} to {} and warm up longer", number_text(*lr), number_text(*lr * 0.5)),
        confidence};
  }
  return Advice{"lower_learning_rate", "halve the learning rate and warm up longer", confidence - 0.1};
}

}  // namespace scalewatch::domain

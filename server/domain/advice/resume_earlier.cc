// A run that had been learning and then skips until its scaler gives up has diverged: it does not come back by itself.
#include <fmt/core.h>

#include <algorithm>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_resume_earlier(const AdviceContext& context) {
  if (!context.rule("ScaleAtMinimum") || context.finding.severity < Severity::kCritical) return std::nullopt;
  if (context.where() == "input" || context.where() == "weights") return std::nullopt;
  const ScalerTrack* scaler = context.scaler();
  constexpr std::int64_t kLearned = 100;  // steps, before which there is nothing to go back to
  if (scaler == nullptr || scaler->calibrating() || context.finding.first_step < kLearned) return std::nullopt;
  std::int64_t step = context.finding.first_step;
  for (const OptimizerTrack& optimizer : scaler->optimizers) {
    if (optimizer.consecutive_skips > 0) step = std::min(step, optimizer.streak_first_step);
  }
  const auto lr = context.run.learning_rate();
  return Advice{
      "resume_earlier",
      fmt::format(
          "go back to a checkpoint from before step {} (the best by its validation loss), where the skips began, and go "
          "on with {} and a gradient norm clipped after unscale_; be told when the scale falls below 1, long before the "
          "run ends",
          step,
          lr && *lr > 0 ? fmt::format("a learning rate of {} in place of {}", number_text(*lr * 0.5), number_text(*lr))
                        : std::string("half the learning rate")),
      0.62};
}

}  // namespace scalewatch::domain

// The weights are lost from some step on.
#include <fmt/core.h>
#include <algorithm>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_restore_checkpoint(const AdviceContext& context) {
  const bool poisoned = context.where() == "weights" || context.rule_is_one_of("NonFiniteWeights", "NonFiniteApplied");
  const bool from_the_start =
      context.finding.first_attempt <= 1 && (context.where() == "weights" || context.rule("ScaleVanished"));
  if (from_the_start && context.run.from_log && context.where() != "weights") {
    return Advice{"restore_checkpoint",
                  "stop: no step can be applied any more. The log begins after the scale began to fall, so go back to a "
                  "checkpoint from before that, with a fresh scaler (init_scale 2^16), find the first tensor of the forward "
                  "pass that is NaN or Inf (hooks, or anomaly mode for one step), and let a run stop when its scale falls "
                  "below 1",
                  0.95};
  }
  if (from_the_start) {
    return Advice{
        "restore_checkpoint",
        "stop, and do not resume from this checkpoint: it held NaN or Inf, or a scale below 1, when it was saved. Take "
        "an older one, scan its parameters, buffers and optimizer state when loading, and begin with a fresh scaler "
        "(init_scale 2^16)",
        0.95};
  }
  if (poisoned) {
    std::int64_t step = context.finding.first_step;
    // The oldest step that is known, or suspected, to have poisoned them.
    for (const auto& [key, tensor] : context.run.poisoned) step = std::min(step, tensor.since_step);
    if (context.run.suspect_since != 0) step = std::min(step, context.run.suspect_since_step);
    return Advice{"restore_checkpoint",
                  fmt::format("stop, and restore a checkpoint from before step {}, with a fresh scaler: what was saved since "
                              "may hold NaN or Inf, so "
                              "scan its parameters, buffers and optimizer state when loading",
                              step),
                  0.95};
  }
  if (!context.rule("ScaleVanished")) return std::nullopt;
  // The scale fell because steps kept failing: what was wrong was wrong before the first of them.
  std::int64_t step = context.finding.first_step;
  for (const PastBlame& past : context.run.blames) step = std::min(step, past.step);
  if (const ScalerTrack* scaler = context.scaler()) {
    for (const OptimizerTrack& optimizer : scaler->optimizers) {
      if (optimizer.consecutive_skips > 0) step = std::min(step, optimizer.streak_first_step);
    }
  }
  return Advice{"restore_checkpoint",
                fmt::format("stop, and restore a checkpoint from before step {} with a fresh scaler (init_scale 2^16)", step),
                0.85};
}

}  // namespace scalewatch::domain

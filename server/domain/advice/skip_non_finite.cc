// Nothing kept the bad step from the weights.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_skip_non_finite(const AdviceContext& context) {
  if (context.rule("NonFiniteLoss") && context.finding.subject == "filtered") {
    return Advice{
        "skip_non_finite",
        fmt::format("show the loss as it is (logging_nan_inf_filter=False in Hugging Face's Trainer) and the gradient "
                    "norm, stop at the first NaN, and go back to a checkpoint from before step {}",
                    context.finding.first_step),
        0.75};
  }
  if (!context.rule("NonFiniteApplied")) return std::nullopt;
  const ScalerTrack* scaler = context.scaler();
  const auto found_inf = context.evidence("found_inf_decided");
  if (found_inf && *found_inf != 1 && scaler != nullptr && scaler->guards) {
    return Advice{"skip_non_finite",
                  fmt::format("clamp found_inf to 0 or 1 before the optimizer's step: it was {}, and a fused kernel skips only "
                              "when it is exactly 1",
                              number_text(*found_inf)),
                  0.8};
  }
  if (scaler == nullptr || !scaler->guards) {
    return Advice{
        "skip_non_finite",
        "skip the step when a gradient is not finite (check the norm before optimizer.step(), or use a GradScaler): without "
        "a scaler nothing does",
        0.85};
  }
  return Advice{"skip_non_finite",
                "step through scaler.step(optimizer), never optimizer.step(), and unscale_ before it, so that found_inf sees "
                "every gradient; in bf16 or under a constant scale check that the norm is finite before each step yourself",
                0.7};
}

}  // namespace scalewatch::domain

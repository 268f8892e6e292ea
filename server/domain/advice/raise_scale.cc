// Gradients vanish at the bottom while there is room at the top: scale the loss further up.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_raise_scale(const AdviceContext& context) {
  if (!context.rule("GradientUnderflow")) return std::nullopt;
  const ScalerTrack* scaler = context.scaler();
  const auto headroom = context.evidence("limiting_headroom");
  const bool all_zero = context.evidence("all_zero").value_or(0) > 0;
  if (scaler == nullptr || !scaler->guards) {
    return Advice{"raise_scale",
                  "scale the loss (a dynamic scaler that begins at 2^16): without one, gradients under 6e-8 are zero in fp16; "
                  "or train in bf16",
                  0.85};
  }
  if (!scaler->scale || (!all_zero && headroom.value_or(0) < 1)) return std::nullopt;
  // An octave is left for what comes.
  const double octaves = all_zero ? std::max(1.0, 16 - std::log2(*scaler->scale)) : std::floor(*headroom - 1);
  if (octaves < 1) return std::nullopt;
  const double to = std::min(*scaler->scale * std::exp2(octaves), 0x1p24);
  if (to <= *scaler->scale) return std::nullopt;
  return Advice{"raise_scale",
                fmt::format("raise the loss scale from {} to {} ({}): {}", scale_text(*scaler->scale), scale_text(to),
                            scaler->dynamic ? "init_scale, or a shorter growth_interval" : "or use a dynamic scaler",
                            all_zero ? "every gradient is zero as it is"
                                     : fmt::format("the largest gradient has {:.1f} octaves left", *headroom)),
                all_zero ? 0.8 : 0.7};
}

}  // namespace scalewatch::domain

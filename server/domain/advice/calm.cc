// Nothing is to be done: what a healthy scaler costs.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/scaler_track.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_calm(const AdviceContext& context) {
  if (context.finding.severity != Severity::kInfo) return std::nullopt;
  if (context.rule("ScaleDrift")) {
    return Advice{
        "calm",
        "nothing to do yet: a few backoffs without a growth are common; watch the gradient norm, and if it rises with "
        "them clip it and warm the learning rate up longer",
        0.6};
  }
  if (context.rule("ScalePolicyMismatch")) {
    return Advice{"calm", "nothing to do if that was meant: the scaler goes on from there", 0.6};
  }
  if (!context.rule("NonFiniteGradient") || context.kind() == "nan") return std::nullopt;
  const ScalerTrack* scaler = context.scaler();
  if (scaler == nullptr || !scaler->dynamic) return std::nullopt;
  if (scaler->calibrating()) {
    return Advice{"calm",
                  fmt::format("nothing to do: skips before the first applied step are the search for a scale{}",
                              scaler->init > 0x1p16 ? "; an init_scale of 2^16 makes it short" : ""),
                  0.8};
  }
  // What the search at the beginning cost, where it was seen.
  constexpr double kFar = 8;
  const bool searched = scaler->scale_first && scaler->scale && same_scale(*scaler->scale_first, scaler->init) &&
                        *scaler->scale > 0 && *scaler->scale * kFar <= scaler->init;
  return Advice{
      "calm",
      fmt::format(
          "nothing to do: a dynamic scaler skips at its start, and then about {} {} for each time that its scale grows, "
          "and this is within that{}",
          scaler->hysteresis, scaler->hysteresis == 1 ? "step" : "steps",
          searched ? fmt::format("; an init_scale of {} makes the next start shorter", scale_text(*scaler->scale * 2))
                   : std::string()),
      0.8};
}

}  // namespace scalewatch::domain

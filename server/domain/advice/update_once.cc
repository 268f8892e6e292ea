// The scale does not move as one update() an attempt would move it.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_update_once(const AdviceContext& context) {
  const ScalerTrack* scaler = context.scaler();
  if (scaler == nullptr || !scaler->dynamic || !scaler->scale || scaler->init <= 0) return std::nullopt;
  if (!context.rule_is_one_of("NeverApplied", "ConsecutiveSkips", "FrequentSkippedSteps", "ScaleCollapse", "ScaleVanished"))
    return std::nullopt;
  constexpr std::uint64_t kSure = 3;
  if (scaler->consecutive_skips >= kSure && scaler->hysteresis == 1 && scaler->unmoved_skips >= kSure) {
    return Advice{
        "call_update",
        fmt::format("call scaler.update() once after step(): {} attempts in a row were skipped and the scale stays at {}",
                    scaler->consecutive_skips, scale_text(*scaler->scale)),
        0.9};
  }
  if (scaler->largest_fall >= 2) {
    return Advice{"update_once",
                  fmt::format("call scaler.update() once an attempt: the scale fell by {} octaves within one",
                              number_text(scaler->largest_fall)),
                  0.6};
  }
  return std::nullopt;
}

}  // namespace scalewatch::domain

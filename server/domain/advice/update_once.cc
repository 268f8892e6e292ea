// The scale does not move as one update() an attempt would move it.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_update_once(const AdviceContext& context) {
  const ScalerTrack* scaler = context.scaler();
  if (scaler == nullptr || !scaler->dynamic || !scaler->scale || scaler->init <= 0) return std::nullopt;
  if (context.rule("ScaleStuck")) {
    return Advice{"call_update",
                  fmt::format("call scaler.update() once after the steps of all optimizers: the scale stays at {}",
                              scale_text(*scaler->scale)),
                  0.85};
  }
  if (context.rule("ScalePolicyMismatch")) {
    if (context.finding.subject.ends_with("/unexplained")) {
      return Advice{
          "check_policy",
          fmt::format("check that the scaler is what the monitor was told (policy {}, with its interval and factors), "
                      "and look for code that sets the scale",
                      scaler->info.policy),
          0.5};
    }
    if (!context.finding.subject.ends_with("/several updates at once")) return std::nullopt;
    return Advice{"update_once",
                  "call scaler.update() once an attempt, outside of loops over optimizers, micro-batches and ranks, and report "
                  "every attempt",
                  0.7};
  }
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

// Trouble right after a resume.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_restore_scaler(const AdviceContext& context) {
  constexpr Attempt kSoon = 50;
  if (context.run.segment < 2 || context.finding.first_attempt > kSoon) return std::nullopt;
  if (!context.rule_is_one_of("FrequentSkippedSteps", "ConsecutiveSkips", "ScaleCollapse", "NeverApplied")) return std::nullopt;
  const ScalerTrack* scaler = context.scaler();
  const std::string from = scaler != nullptr && scaler->init > 0
                               ? fmt::format(", instead of starting from {} again", scale_text(scaler->init))
                               : std::string();
  return Advice{"restore_scaler",
                fmt::format("restore the scaler at resume (scaler.load_state_dict of the checkpoint){}, and the optimizer's "
                            "state with it: this began "
                            "{} attempts after the restart",
                            from, context.finding.first_attempt),
                0.6};
}

}  // namespace scalewatch::domain

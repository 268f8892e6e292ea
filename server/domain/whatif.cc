#include "server/domain/whatif.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::domain {

std::optional<bool> overflows(const WhatIfAttempt& attempt, double scale) {
  if (attempt.scale_no_help || !std::isfinite(scale)) return true;
  if (scale == attempt.scale) return attempt.skipped || attempt.non_finite;
  if (attempt.non_finite || (attempt.skipped && !attempt.room)) {
    // Something overflowed under the recorded scale, so it does under any larger one.
    if (scale > attempt.scale) return true;
    if (attempt.room && scale > *attempt.room) return true;  // another tensor would
    return std::nullopt;
  }
  if (!attempt.room) return std::nullopt;
  return scale > *attempt.room;
}

WhatIf what_if(Policy& policy, const std::vector<WhatIfAttempt>& attempts) {
  WhatIf out;
  out.steps.reserve(attempts.size());
  out.scale_min = policy.scale();
  for (const auto& attempt : attempts) {
    WhatIfStep step;
    step.scale = policy.scale();
    const auto known = overflows(attempt, step.scale);
    const bool recorded = attempt.room || attempt.non_finite || attempt.scale_no_help;
    // Without a record the attempt is taken as it went; with one that only bounds, the smaller scale is given its chance.
    const bool found_inf = known.value_or(!recorded && attempt.skipped);
    step.undecided = !known && recorded;
    out.unknown += recorded ? 0 : 1;
    out.undecided += step.undecided ? 1 : 0;
    step.skipped = found_inf && policy.skips();
    out.skipped += step.skipped ? 1 : 0;
    const double after = policy.update(found_inf);
    out.growths += after > step.scale ? 1 : 0;
    out.scale_min = std::min(out.scale_min, after);
    out.scale_last = after;
    out.steps.push_back(step);
    if (policy.ended()) {
      out.ended = true;
      break;
    }
  }
  return out;
}

}  // namespace scalewatch::domain

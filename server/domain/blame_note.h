// What would have to be collected to know more than a blame says. Pure.
#pragma once

#include <string>
#include <string_view>

#include "server/domain/attempt.h"
#include "server/domain/finding.h"
#include "server/domain/model.h"

namespace scalewatch::domain {

struct BlameEvidence {
  const JoinedAttempt& attempt;
  const RunModel& run;              // as it stood before the attempt
  bool gradients_known = false;     // by record or by found_inf
  bool state_seen_bad = false;      // a parameter, buffer or optimizer state was
  const TensorAt* doubt = nullptr;  // an activation of -Inf alone that may be a mask or where it began
};

// What a tensor is called that a log tells of without its name.
inline constexpr std::string_view kUnnamed = "(unnamed module)";

// Empty when nothing is missing.
std::string blame_note(const Blame& blame, const BlameEvidence& evidence);

}  // namespace scalewatch::domain

// What another policy would have done with the gradients that were recorded. Pure: no I/O, no clock.
//
// It can't know everything: after an attempt that one policy skips and the other applies, the weights differ and later attempts
// would have been others; where gradients were non-finite their true size was not recorded, only that the scale of that attempt
// was too much; and what overflows between recorded tensors is seen only where it reaches one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/domain/policy.h"

namespace scalewatch::domain {

// One recorded attempt.
struct WhatIfAttempt {
  std::uint64_t attempt = 0;
  double scale = 1;            // in force; finite and > 0
  bool skipped = false;        // what happened (partial counts as skipped)
  std::optional<double> room;  // the largest scale that no recorded gradient overflows under; absent: none was recorded
  bool non_finite = false;     // a recorded gradient was NaN or Inf
  bool scale_no_help = false;  // loss or activations were non-finite: every scale overflows
};

struct WhatIfStep {
  double scale = 0;        // that the policy would have had
  bool skipped = false;    // it would have
  bool undecided = false;  // a smaller scale than the one that overflowed: taken for applied, may not have been
};

struct WhatIf {
  std::vector<WhatIfStep> steps;  // one an attempt; fewer where the policy would have ended the run
  std::uint64_t skipped = 0;
  std::uint64_t growths = 0;
  std::uint64_t undecided = 0;
  std::uint64_t unknown = 0;  // attempts without a recorded gradient: taken as they went
  double scale_min = 0;
  double scale_last = 0;
  bool ended = false;  // it would have raised
};

// Replays a policy over the attempts, in order. The policy is left as the last attempt left it.
WhatIf what_if(Policy& policy, const std::vector<WhatIfAttempt>& attempts);

// Whether the attempt overflows under a scale: nullopt where that can't be told.
std::optional<bool> overflows(const WhatIfAttempt& attempt, double scale);

}  // namespace scalewatch::domain

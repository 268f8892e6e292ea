// Runs a scenario through the domain as a server would, and keeps what was blamed at each attempt.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/domain/finding.h"
#include "tests/unit/domain/graphs/scenario.h"

namespace scalewatch::domain::graphs {

struct Heard {
  std::string rule;
  Blame blame;
};
struct RunOutcome {
  bool healthy = true;  // nothing was non-finite before the fault
  Attempt fault = 0;    // the attempt that it was planted in
  bool skipped = false;
  std::map<Attempt, std::vector<Heard>> heard;  // newest blame of each finding for the attempt
};
RunOutcome run(const Scenario& scenario);

// After some healthy attempts multiplies every layer's weight by 2^rate at each attempt, until something overflows; what is
// blamed then. Faults are not planted.
std::vector<Blame> run_growing(const Scenario& scenario, const std::vector<float>& rates);

}  // namespace scalewatch::domain::graphs

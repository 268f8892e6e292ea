// Random runs as a server sees them, from the records of each report up: what every rule's state must survive.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/unit/domain/folded_run.h"

namespace scalewatch::domain {

// A run of `length` attempts by 1 to 4 ranks: every scaler policy in turn (by seed), restarts, crashes, losses, late and
// retrospective reports, silence, acknowledgements, and tensors that misbehave in every way that a record can tell.
std::vector<RunInput> random_run(std::uint64_t seed, int length);

}  // namespace scalewatch::domain

// The data of the golden tests: a run whose scale collapses in its second segment, beside a healthy one.
#pragma once

#include "tests/unit/cli/fake_server.h"

namespace scalewatch::cli {

// The moment that ages are told against.
inline constexpr std::int64_t kNow = 1'700'000'100'000;

FakeData collapsing_run();

// Fills in attempts 1 to 9 without 4 (6 is skipped and non-finite), a baseline beside them, and an optimizer.
void add_attempts(FakeData& data);

}  // namespace scalewatch::cli

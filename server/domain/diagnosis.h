// The one answer to "how is my run?": what `scalewatch doctor` prints. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/finding.h"
#include "server/domain/run_state.h"

namespace scalewatch::domain {

// What happened, in numbers. Of a run with several scalers, the scale is that of the first.
struct RunFacts {
  std::uint64_t attempts = 0;
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t partial = 0;
  std::optional<double> scale_first;
  std::optional<double> scale_last;
  std::optional<double> scale_min;
};

RunFacts facts_of(const RunView& view);

struct Diagnosis {
  Severity verdict = Severity::kNone;  // kNone: healthy. Else the worst of the findings
  std::string headline;                // one sentence that names the root finding, or says that all is well
  RunFacts facts;
  std::vector<Finding> findings;  // the root first: by severity, then cause before consequence, then oldest first
};

// `findings`: those to judge by, open or not.
Diagnosis diagnose(const RunFacts& facts, std::vector<Finding> findings);

// "healthy", "info", "warning", "critical"
std::string verdict_text(Severity verdict);

}  // namespace scalewatch::domain

// A finding as people read it. Everything in it that comes from outside is escaped here.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "server/cli/screen.h"
#include "server/domain/finding.h"

namespace scalewatch::cli {

// "0-3, 7"; at most 16 groups, then how many ranks are left out. Expects rising ranks.
std::string ranks_text(std::span<const domain::Rank> ranks);

// "attempts 5-12 (steps 4-11)", steps alone where attempts are not known, "run 2, line 17 (steps 4-11)" in a
// log.
std::string when_text(const domain::Finding& finding);

// "layers.3.weight (gradient), backward, 4 NaN, 12 Inf, rank 2"
std::string blame_text(const domain::Blame& blame);

// "skipped 12 attempts (limit 5)"
std::string evidence_text(const domain::Evidence& evidence);

enum class Detail : std::uint8_t {
  kBrief,  // what, when, where and the surest advice
  kFull,   // also every number, all that is known of the blame, all advice
};
// Advice that `said` holds was printed for a finding before: it is not said again. What is printed is added to it.
void print_finding(const domain::Finding& finding, Detail detail, const Screen& screen, std::set<std::string>* said = nullptr);

}  // namespace scalewatch::cli

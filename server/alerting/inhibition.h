// Which alert explains which: what follows from a fault pages nobody while the fault itself fires. Pure.
#pragma once

#include <string_view>

namespace scalewatch::alerting {

// Whether an alert of the rule `cause` explains one of the rule `effect` of the same run.
bool explains(std::string_view cause, std::string_view effect);
// Whether alerts of the rule explain any others.
bool is_cause(std::string_view rule);

}  // namespace scalewatch::alerting

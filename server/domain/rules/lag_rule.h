// What the rules about the server itself have in common: a warning that stands while ServerLag says so.
#pragma once

#include "server/domain/rules/rule.h"

namespace scalewatch::domain {

class LagRule : public StatelessRule<LagRule> {
 protected:
  // Of now; `limit`: what `value` is held against, both in milliseconds.
  [[nodiscard]] Draft draft(std::string summary, std::string_view evidence, TimeMs value, TimeMs limit,
                            const RuleContext& context) const {
    const Finding* open = context.sink.find(name(), {});
    Draft draft;
    draft.rule = name();
    draft.severity = Severity::kWarning;
    draft.first_attempt = open != nullptr ? open->first_attempt : context.run.newest;
    draft.first_step = open != nullptr ? open->first_step : context.run.last_step;
    draft.attempt = context.run.newest;
    draft.step = context.run.last_step;
    draft.summary = std::move(summary);
    draft.evidence = {{std::string(evidence), static_cast<double>(value) / 1000, "seconds", static_cast<double>(limit) / 1000}};
    return draft;
  }
};

}  // namespace scalewatch::domain

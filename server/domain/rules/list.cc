#include "server/domain/rules/rules.h"

#include <algorithm>

namespace scalewatch::domain {

bool all_silent(const Liveness& liveness, const Thresholds& thresholds) {
  return !liveness.ranks.empty() && std::all_of(liveness.ranks.begin(), liveness.ranks.end(), [&](const Liveness::Seen& seen) {
    return liveness.now - seen.last_seen >= thresholds.rank_lost_after_ms;
  });
}

std::vector<std::unique_ptr<Rule>> make_rules() {
  std::vector<std::unique_ptr<Rule>> rules;
  rules.push_back(make_non_finite_weights());
  rules.push_back(make_non_finite_applied());
  rules.push_back(make_non_finite_loss());
  rules.push_back(make_non_finite_gradient());
  rules.push_back(make_scale_vanished());
  rules.push_back(make_scale_collapse());
  rules.push_back(make_never_applied());
  rules.push_back(make_consecutive_skips());
  rules.push_back(make_frequent_skipped_steps());
  rules.push_back(make_rank_disagreement());
  rules.push_back(make_rank_lost());
  rules.push_back(make_ended_without_goodbye());
  rules.push_back(make_stats_dropped());
  return rules;
}

}  // namespace scalewatch::domain

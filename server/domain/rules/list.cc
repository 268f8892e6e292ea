#include "server/domain/rules/rules.h"

#include <algorithm>

namespace scalewatch::domain {

std::vector<Rank> ranks_to_name(const std::vector<Rank>& ranks, const ClosedAttempt& attempt, const RuleContext& context) {
  const auto all = std::max<std::size_t>(attempt.joined.reports.size(), context.run.world_size);
  return ranks.size() < all ? ranks : std::vector<Rank>();
}

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
  rules.push_back(make_history_degraded());
  rules.push_back(make_ingest_lag());
  rules.push_back(make_missing_scaler());
  rules.push_back(make_misuse());
  rules.push_back(make_scale_policy_mismatch());
  rules.push_back(make_scale_stuck());
  rules.push_back(make_scale_at_minimum());
  rules.push_back(make_scale_runaway());
  rules.push_back(make_scale_drift());
  rules.push_back(make_step_frozen());
  rules.push_back(make_calibration_too_long());
  rules.push_back(make_loss_spike());
  rules.push_back(make_grad_norm_spike());
  rules.push_back(make_loss_unchanged());
  rules.push_back(make_run_stalled());
  rules.push_back(make_non_finite_activation());
  rules.push_back(make_gradient_underflow());
  rules.push_back(make_low_headroom());
  rules.push_back(make_range_too_wide());
  rules.push_back(make_fp8_saturation());
  rules.push_back(make_all_zero_gradient());
  rules.push_back(make_dominant_gradient());
  rules.push_back(make_optimizer_state_underflow());
  rules.push_back(make_lost_updates());
  return rules;
}

}  // namespace scalewatch::domain

// The makers that the list registers.
#pragma once

#include "server/domain/rules/rule.h"

namespace scalewatch::domain {

std::unique_ptr<Rule> make_all_zero_gradient();
std::unique_ptr<Rule> make_calibration_too_long();
std::unique_ptr<Rule> make_consecutive_skips();
std::unique_ptr<Rule> make_dominant_gradient();
std::unique_ptr<Rule> make_ended_without_goodbye();
std::unique_ptr<Rule> make_fp8_saturation();
std::unique_ptr<Rule> make_frequent_skipped_steps();
std::unique_ptr<Rule> make_grad_norm_spike();
std::unique_ptr<Rule> make_gradient_underflow();
std::unique_ptr<Rule> make_history_degraded();
std::unique_ptr<Rule> make_ingest_lag();
std::unique_ptr<Rule> make_loss_spike();
std::unique_ptr<Rule> make_loss_unchanged();
std::unique_ptr<Rule> make_lost_updates();
std::unique_ptr<Rule> make_low_headroom();
std::unique_ptr<Rule> make_misuse();
std::unique_ptr<Rule> make_missing_scaler();
std::unique_ptr<Rule> make_never_applied();
std::unique_ptr<Rule> make_non_finite_activation();
std::unique_ptr<Rule> make_non_finite_applied();
std::unique_ptr<Rule> make_non_finite_gradient();
std::unique_ptr<Rule> make_non_finite_loss();
std::unique_ptr<Rule> make_non_finite_weights();
std::unique_ptr<Rule> make_optimizer_state_underflow();
std::unique_ptr<Rule> make_range_too_wide();
std::unique_ptr<Rule> make_rank_disagreement();
std::unique_ptr<Rule> make_rank_lost();
std::unique_ptr<Rule> make_run_stalled();
std::unique_ptr<Rule> make_scale_at_minimum();
std::unique_ptr<Rule> make_scale_collapse();
std::unique_ptr<Rule> make_scale_drift();
std::unique_ptr<Rule> make_scale_policy_mismatch();
std::unique_ptr<Rule> make_scale_runaway();
std::unique_ptr<Rule> make_scale_stuck();
std::unique_ptr<Rule> make_scale_vanished();
std::unique_ptr<Rule> make_stats_dropped();
std::unique_ptr<Rule> make_step_frozen();

}  // namespace scalewatch::domain

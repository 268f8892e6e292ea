// The makers that the list registers.
#pragma once

#include "server/domain/rules/rule.h"

namespace scalewatch::domain {

std::unique_ptr<Rule> make_consecutive_skips();
std::unique_ptr<Rule> make_ended_without_goodbye();
std::unique_ptr<Rule> make_frequent_skipped_steps();
std::unique_ptr<Rule> make_never_applied();
std::unique_ptr<Rule> make_non_finite_applied();
std::unique_ptr<Rule> make_non_finite_gradient();
std::unique_ptr<Rule> make_non_finite_loss();
std::unique_ptr<Rule> make_non_finite_weights();
std::unique_ptr<Rule> make_rank_disagreement();
std::unique_ptr<Rule> make_rank_lost();
std::unique_ptr<Rule> make_scale_collapse();
std::unique_ptr<Rule> make_scale_vanished();
std::unique_ptr<Rule> make_stats_dropped();

}  // namespace scalewatch::domain

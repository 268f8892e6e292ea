#include "server/domain/attempt_counts.h"

#include <algorithm>

#include "server/domain/blame.h"

namespace scalewatch::domain {
namespace {

SkipReason reason_of(const std::optional<Blame>& blame) {
  if (!blame) return SkipReason::kUnknown;
  if (blame->where == "input") return SkipReason::kInput;
  if (blame->where == "loss") return SkipReason::kLoss;
  switch (blame->role) {
    case Role::kParameter:
    case Role::kBuffer:
    case Role::kOptimizerState:
      return SkipReason::kParameter;
    case Role::kActivation:
      return SkipReason::kActivation;
    case Role::kActivationGradient:
      return SkipReason::kActivationGradient;
    case Role::kGradient:
      return SkipReason::kGradient;
    case Role::kUnspecified:  // found_inf alone told of it
      break;
  }
  return SkipReason::kUnknown;
}

std::uint64_t elements_of(const TensorAt& tensor) {
  const bool may_be_mask = tensor.role == Role::kActivation && !tensor.neg_inf_is_new;
  return tensor.nan + tensor.pos_inf + (may_be_mask ? 0 : tensor.neg_inf);
}

}  // namespace

void AttemptCounts::add(const JoinedAttempt& attempt, AttemptOutcome outcome, const std::optional<Blame>& blame) {
  if (!attempt.non_finite.empty()) add_elements(attempt);
  if (std::any_of(attempt.reports.begin(), attempt.reports.end(), loss_non_finite)) ++non_finite_losses;
  if (outcome == AttemptOutcome::kSkipped) ++skips.at(static_cast<std::size_t>(reason_of(blame)));
  if (outcome == AttemptOutcome::kApplied && gradients_non_finite(attempt)) ++non_finite_applied;
}

void AttemptCounts::add_elements(const JoinedAttempt& attempt) {
  std::array<bool, kRoles> seen{};
  for (const TensorAt& tensor : attempt.non_finite) {
    const std::uint64_t elements = elements_of(tensor);
    if (elements == 0) continue;
    non_finite_elements.at(static_cast<std::size_t>(tensor.role)) += elements;
    seen.at(static_cast<std::size_t>(tensor.role)) = true;
  }
  for (std::size_t role = 0; role < kRoles; ++role) non_finite_attempts.at(role) += seen.at(role) ? 1 : 0;
}

}  // namespace scalewatch::domain

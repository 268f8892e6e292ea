// Where an attempt went wrong first, in the order that values flowed. Pure.
#pragma once

#include <optional>

#include "server/domain/attempt.h"
#include "server/domain/finding.h"
#include "server/domain/model.h"

namespace scalewatch::domain {

// `run` as it stood before this attempt. `complete`: no more reports will come, so that what is absent is absent.
// Nothing when all that was seen is finite.
//
// State tensors come first only where the poison was there before: seen earlier, or non-finite though the step was skipped.
// A weight that an applied step has just poisoned is a consequence, and the flow of this attempt is blamed. -Inf alone in an
// activation is a mask, unless its rank saw enough of it without any, or the loss is non-finite and nothing else explains it;
// such doubt is in the note. Of activations and their gradients that tell their micro-batch the earliest one's come first.
//
// The rank of origin comes from the loss, activations and their gradients, and from found_inf where some ranks had found
// something before the reduction and others had not (never of shards: their owner holds what was reduced already).
std::optional<Blame> find_blame(const JoinedAttempt& attempt, const RunModel& run, bool complete);

// The only rank (of at least two) whose own values were non-finite before any reduction over ranks; none when its data was.
std::optional<Rank> lone_rank(const JoinedAttempt& attempt);

// Does the activation hold nothing worse than -Inf?
inline bool only_neg_inf(const TensorAt& tensor) {
  return tensor.role == Role::kActivation && tensor.nan == 0 && tensor.pos_inf == 0;
}
// Gradients of the attempt that were non-finite, by record or by found_inf.
bool gradients_non_finite(const JoinedAttempt& attempt);
bool loss_non_finite(const RankReport& report);
// Outcome over all scalers and ranks as reported; applied without a scaler, unknown outside of training.
AttemptOutcome outcome_of(const JoinedAttempt& attempt, const RunModel& run);
// Number of tensors that were non-finite in all.
std::uint32_t tensors_non_finite(const JoinedAttempt& attempt);

}  // namespace scalewatch::domain

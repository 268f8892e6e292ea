#include "server/engine/run_meter.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::engine {

namespace {

constexpr std::size_t kMaxScalers = 64;

SkipReason reason_of(Role role) {
  switch (role) {
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
    case Role::kUnspecified:
      break;
  }
  return SkipReason::kUnknown;
}

// Elements that count: an activation's -Inf may be a mask, unless it held none at first.
std::uint64_t elements(const domain::NonFiniteTensor& tensor, Role role) {
  const bool mask = role == Role::kActivation && !tensor.neg_inf_is_new;
  return tensor.nan + tensor.pos_inf + (mask ? 0 : tensor.neg_inf);
}

}  // namespace

void RunMeter::take(const domain::AttemptDigest& digest, bool open) {
  if (digest.retrospective) return;
  for (const domain::ScalerObservation& scaler : digest.scalers) {
    if (scaler.scaler >= kMaxScalers || !scaler.hysteresis) continue;
    if (hysteresis_.size() <= scaler.scaler) hysteresis_.resize(scaler.scaler + 1);
    hysteresis_[scaler.scaler] = scaler.hysteresis;
  }
  Note late;
  Note& note = open ? open_[digest.attempt] : late;
  const auto see = [&](SkipReason reason) { note.seen.set(static_cast<std::size_t>(reason)); };
  for (const domain::NonFiniteTensor& tensor : digest.non_finite) {
    const Role role = (*digest.table)[tensor.id].role;
    const std::uint64_t count = elements(tensor, role);
    if (count == 0) continue;
    counts_.non_finite_elements.at(static_cast<std::size_t>(role)) += count;
    note.roles.set(static_cast<std::size_t>(role));
    see(reason_of(role));
  }
  if (digest.input_non_finite.value_or(false)) see(SkipReason::kInput);
  if (digest.loss && !std::isfinite(*digest.loss)) see(SkipReason::kLoss);
  note_outcome(digest, note);
}

// Of all optimizers together; partly skipped is neither.
void RunMeter::note_outcome(const domain::AttemptDigest& digest, Note& note) {
  bool told = false;
  for (const domain::ScalerObservation& scaler : digest.scalers) {
    for (const domain::OptimizerObservation& optimizer : scaler.optimizers) {
      told = true;
      const double found = optimizer.found_inf_decided.value_or(optimizer.found_inf_local.value_or(0));
      const bool skipped =
          optimizer.outcome == domain::Outcome::kUnknown ? found > 0 : optimizer.outcome == domain::Outcome::kSkipped;
      (skipped ? note.skipped : note.applied) = true;
    }
  }
  // Without a scaler every attempt is applied.
  if (!told && digest.scalers.empty()) note.applied = true;
}

void RunMeter::close(domain::Attempt attempt) {
  const auto end = open_.upper_bound(attempt);
  for (auto it = open_.begin(); it != end; ++it) {
    const Note& note = it->second;
    for (std::size_t role = 0; role < kRoles; ++role) counts_.non_finite_attempts.at(role) += note.roles.test(role) ? 1 : 0;
    const auto saw = [&](SkipReason reason) { return note.seen.test(static_cast<std::size_t>(reason)); };
    if (saw(SkipReason::kLoss)) ++counts_.non_finite_losses;
    if (note.skipped && !note.applied) {
      std::size_t first = 0;
      while (first + 1 < kSkipReasons && !note.seen.test(first)) ++first;
      ++counts_.skips.at(first);
    }
    if (note.applied && !note.skipped && saw(SkipReason::kGradient)) ++counts_.non_finite_applied;
  }
  open_.erase(open_.begin(), end);
}

void RunMeter::reset() {
  *this = {};
}

void RunMeter::tell(RunReadings& out) const {
  out.non_finite_elements = counts_.non_finite_elements;
  out.non_finite_attempts = counts_.non_finite_attempts;
  out.non_finite_losses = counts_.non_finite_losses;
  out.skips = counts_.skips;
  out.non_finite_applied = counts_.non_finite_applied;
  for (std::size_t i = 0; i < std::min(out.scalers.size(), hysteresis_.size()); ++i) out.scalers[i].hysteresis = hysteresis_[i];
}

}  // namespace scalewatch::engine

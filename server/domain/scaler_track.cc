#include "server/domain/scaler_track.h"

#include <algorithm>
#include <cmath>

#include "server/domain/policy.h"

namespace scalewatch::domain {
namespace {

bool is_fused(const RankInfo* rank, const OptimizerObservation& observation) {
  const OptimizerInfo* info = rank != nullptr ? rank->optimizer(observation.optimizer) : nullptr;
  return info != nullptr && info->fused;
}

// By index and, where given, name: ranks may number their optimizers alike but differ in how many they have.
OptimizerTrack* optimizer_track(ScalerTrack& track, std::uint32_t index, const std::string& name, Attempt attempt,
                                std::int64_t step) {
  for (OptimizerTrack& known : track.optimizers) {
    if (known.index == index) return &known;
  }
  if (track.optimizers.size() >= RunModel::kMaxOptimizers) return nullptr;
  OptimizerTrack fresh;
  fresh.index = index;
  fresh.name = name;
  fresh.first_attempt = attempt;
  fresh.first_step = step;
  track.optimizers.push_back(std::move(fresh));
  return &track.optimizers.back();
}

void count(OptimizerTrack& optimizer, Outcome outcome, Attempt attempt, std::int64_t step) {
  if (outcome == Outcome::kApplied) {
    ++optimizer.applied;
    optimizer.calibrating = false;
    optimizer.consecutive_skips = 0;
  } else if (outcome == Outcome::kSkipped) {
    ++optimizer.skipped;
    if (optimizer.consecutive_skips++ == 0) {
      optimizer.streak_first_attempt = attempt;
      optimizer.streak_first_step = step;
    }
  }
}

void push_window(ScalerTrack& track, const WindowItem& item, std::uint32_t limit) {
  track.window.push_back(item);
  track.window_skipped += item.skipped ? 1 : 0;
  track.window_grew += item.grew ? 1 : 0;
  while (track.window.size() > limit) {
    track.window_skipped -= track.window.front().skipped ? 1 : 0;
    track.window_grew -= track.window.front().grew ? 1 : 0;
    track.window.pop_front();
  }
}

}  // namespace

ScalerTrack make_track(const ScalerInfo& info) {
  ScalerTrack track;
  track.info = info;
  if (const auto policy = make_policy(info.policy, info.parameters)) {
    track.hysteresis = policy->hysteresis();
    track.init = policy->init_scale();
    track.floor = policy->floor().value_or(0);
    track.dynamic = policy->dynamic();
    track.guards = policy->guards();
  } else {
    track.hysteresis = static_cast<std::int32_t>(std::clamp(parameter_or(info.parameters, "hysteresis", 1), 1.0, 1000.0));
    track.init = parameter_or(info.parameters, "init_scale", 0);
    track.floor = parameter_or(info.parameters, "min_scale", 0);
  }
  return track;
}

AttemptOutcome combine(AttemptOutcome a, AttemptOutcome b) {
  if (a == AttemptOutcome::kUnknown) return b;
  if (b == AttemptOutcome::kUnknown || a == b) return a;
  return AttemptOutcome::kPartial;
}

Outcome decide_outcome(const ScalerTrack& track, const ScalerObservation& scaler, const OptimizerObservation* observation,
                       bool fused, bool alone) {
  const auto decided = observation != nullptr ? observation->found_inf_decided : std::nullopt;
  // A fused kernel skips on exactly 1, whatever the trainer believes.
  if (fused && decided && *decided != 0 && *decided != 1) return Outcome::kApplied;
  if (observation != nullptr && observation->outcome != Outcome::kUnknown) return observation->outcome;
  if (!track.guards) return Outcome::kApplied;
  if (decided) return *decided != 0 ? Outcome::kSkipped : Outcome::kApplied;
  const auto before = scaler.scale_before;
  const auto after = scaler.scale_after;
  if (track.dynamic && before && after && scaler.optimizers.size() <= 1) {
    if (*after < *before) return Outcome::kSkipped;
    // A skip may leave the scale as it is while hysteresis lasts, at the floor, and once it is gone.
    if (track.hysteresis == 1 && *before > track.floor && *before > 0) return Outcome::kApplied;
  }
  if (observation != nullptr && observation->found_inf_local && (alone || *observation->found_inf_local != 0)) {
    return *observation->found_inf_local != 0 ? Outcome::kSkipped : Outcome::kApplied;
  }
  return Outcome::kUnknown;
}

AttemptOutcome decide_attempt(const ScalerTrack& track, const ScalerObservation& scaler, const RankInfo* rank, bool alone) {
  if (scaler.optimizers.empty()) {
    return static_cast<AttemptOutcome>(decide_outcome(track, scaler, nullptr, false, alone));
  }
  AttemptOutcome all = AttemptOutcome::kUnknown;
  for (const OptimizerObservation& observation : scaler.optimizers) {
    const Outcome outcome = decide_outcome(track, scaler, &observation, is_fused(rank, observation), alone);
    all = combine(all, static_cast<AttemptOutcome>(outcome));
  }
  return all;
}

ScalerStep advance(ScalerTrack& track, const ScalerObservation& seen, const RankInfo* rank, Rank number, Attempt attempt,
                   std::int64_t step, bool alone, const Thresholds& thresholds) {
  const bool next = attempt == track.last_attempt + 1;
  ScalerObservation scaler = seen;
  if (!scaler.scale_before && next) scaler.scale_before = track.scale;
  const auto previous = track.scale;
  track.last_attempt = attempt;

  ScalerStep result;
  result.rank = number;
  result.attempt = attempt;
  result.step = step;
  result.scale_before = scaler.scale_before;
  result.scale_after = scaler.scale_after;
  if (track.init == 0 && scaler.scale_before && *scaler.scale_before > 0) track.init = *scaler.scale_before;
  if (track.dynamic && scaler.scale_before && scaler.scale_after) {
    result.grew = *scaler.scale_after > *scaler.scale_before;
    result.backed_off = *scaler.scale_after < *scaler.scale_before;
  }
  // A growth within lost reports still explains a skip.
  if (track.dynamic && !next && previous && scaler.scale_before && *scaler.scale_before > *previous) result.grew = true;

  const auto take = [&](std::uint32_t index, const std::string& name, Outcome outcome) {
    OptimizerTrack* optimizer = optimizer_track(track, index, name, attempt, step);
    if (optimizer == nullptr) return;
    const bool was_calibrating = optimizer->calibrating;
    count(*optimizer, outcome, attempt, step);
    result.optimizers.push_back({static_cast<std::size_t>(optimizer - track.optimizers.data()), outcome, was_calibrating});
    result.outcome = combine(result.outcome, static_cast<AttemptOutcome>(outcome));
  };
  if (scaler.optimizers.empty()) take(0, {}, decide_outcome(track, scaler, nullptr, false, alone));
  for (const OptimizerObservation& observation : scaler.optimizers) {
    const OptimizerInfo* info = rank != nullptr ? rank->optimizer(observation.optimizer) : nullptr;
    take(observation.optimizer, info != nullptr ? info->name : std::string(),
         decide_outcome(track, scaler, &observation, info != nullptr && info->fused, alone));
  }

  bool counted = false;
  bool skipped = false;
  for (const OptimizerStep& optimizer : result.optimizers) {
    if (optimizer.was_calibrating || optimizer.outcome == Outcome::kUnknown) continue;
    counted = true;
    skipped = skipped || optimizer.outcome == Outcome::kSkipped;
  }
  result.after_calibration = counted;
  // A rider of the edge pays `hysteresis` skips for each growth; growths long unpaid for don't excuse a collapse.
  if (result.grew) track.credit = std::min(track.credit + track.hysteresis, 8 * track.hysteresis);
  if (skipped && track.credit > 0) {
    --track.credit;
  } else if (skipped) {
    track.unexplained.push_back(attempt);
    if (track.unexplained.size() > ScalerTrack::kMaxUnexplained) track.unexplained.pop_front();
  }
  if (counted) push_window(track, {attempt, step, skipped, result.grew}, thresholds.frequent_skips_window);

  switch (result.outcome) {
    case AttemptOutcome::kApplied:
      ++track.applied;
      break;
    case AttemptOutcome::kSkipped:
      ++track.skipped;
      break;
    case AttemptOutcome::kPartial:
      ++track.partial;
      break;
    case AttemptOutcome::kUnknown:
      break;
  }
  if (result.outcome == AttemptOutcome::kSkipped) {
    ++track.consecutive_skips;
  } else if (result.outcome != AttemptOutcome::kUnknown) {
    track.consecutive_skips = 0;
  }
  if (result.outcome == AttemptOutcome::kSkipped && scaler.scale_before && scaler.scale_after) {
    const bool unmoved = *scaler.scale_after == *scaler.scale_before && *scaler.scale_after > track.floor;
    track.unmoved_skips = unmoved ? track.unmoved_skips + 1 : 0;
    if (track.consecutive_skips == 1) track.largest_fall = 0;
    if (result.backed_off && *scaler.scale_after > 0) {
      track.largest_fall = std::max(track.largest_fall, std::log2(*scaler.scale_before / *scaler.scale_after));
    }
  } else if (result.outcome != AttemptOutcome::kUnknown) {
    track.unmoved_skips = 0;
  }
  if (result.grew) ++track.growths;
  if (scaler.scale_after) {
    track.scale = scaler.scale_after;
  } else if (scaler.scale_before) {
    track.scale = scaler.scale_before;
  }
  for (const auto& value : {scaler.scale_before, scaler.scale_after}) {
    if (!value) continue;
    if (!track.scale_first) track.scale_first = value;
    if (!track.scale_min || *value < *track.scale_min) track.scale_min = value;
  }
  if (scaler.growth_tracker) track.growth_tracker = scaler.growth_tracker;
  result.scaler = &track;
  return result;
}

}  // namespace scalewatch::domain

#include "server/domain/scaler_track.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// Something was applied before the first attempt that was seen: more attempts went by than a search explains.
bool began_in_the_middle(const ScalerTrack& track, std::optional<double> scale, Attempt attempt) {
  constexpr double kSlack = 2;
  if (!track.dynamic) return true;  // a fixed scale searches for nothing
  // A log that tells no scale: no search goes on below 1.
  if (!scale && track.from_log && track.init > 1) scale = 1;
  return scale && static_cast<double>(attempt) > explained_skips(track, *scale) + kSlack;
}

// Did any optimizer find a non-finite gradient? Absent where nothing tells.
std::optional<bool> found_inf(const ScalerObservation& scaler, AttemptOutcome outcome) {
  bool decided = false;
  for (const OptimizerObservation& optimizer : scaler.optimizers) {
    if (!optimizer.found_inf_decided) continue;
    if (*optimizer.found_inf_decided != 0) return true;
    decided = true;
  }
  if (outcome == AttemptOutcome::kUnknown) return decided ? std::optional(false) : std::nullopt;
  return outcome != AttemptOutcome::kApplied;
}

// Goes on with the policy's replay, and says what it makes of the attempt.
void replay(ScalerTrack& track, const ScalerObservation& scaler, bool next, ScalerStep& step) {
  if (!track.dynamic || !step.scale_before) return;
  Policy* const policy = track.policy();
  if (policy == nullptr) return;
  policy->restore(track.replay);
  if (!next) {
    // Attempts that were not seen have moved the counters. A run's first attempt under the initial scale is a start.
    const bool start = !track.replay_started && step.attempt == 1 && same_scale(*step.scale_before, track.init);
    track.clean_known = false;
    track.hysteresis_known = track.hysteresis == 1 || start;
  }
  track.replay_started = true;
  policy->resync({step.scale_before, {}, {}});
  step.at_floor = policy->at_floor();
  const auto found = found_inf(scaler, step.outcome);
  if (found && *found && step.backed_off && !track.hysteresis_known) {
    // It backed off, so that none was left.
    PolicyState spent = policy->state();
    spent.hysteresis = std::min(spent.hysteresis, 1);
    policy->restore(spent);
  }
  if (found) {
    const bool certain = track.rates_known && (*found ? track.hysteresis_known : track.clean_known);
    policy->update(*found);
    if (certain) step.expected_after = policy->scale();
    const auto tracker = policy->growth_tracker();
    if (certain && !*found && next && tracker && scaler.growth_tracker && scaler.growth_tracker == track.growth_tracker) {
      step.tracker_stood = static_cast<std::uint64_t>(*tracker) != *scaler.growth_tracker;
    }
  }
  PolicyObservation seen;
  seen.scale = scaler.scale_after;
  if (scaler.growth_tracker)
    seen.growth_tracker = static_cast<std::int64_t>(std::min<std::uint64_t>(*scaler.growth_tracker, INT64_MAX));
  seen.hysteresis = scaler.hysteresis;
  policy->resync(seen);
  track.clean_known = scaler.growth_tracker || (found && (*found || track.clean_known));
  // A growth refills the hysteresis, a backoff has used it up.
  track.hysteresis_known =
      scaler.hysteresis || track.hysteresis == 1 || (found && (track.hysteresis_known || step.grew || step.backed_off));
  track.replay = policy->state();
  if (!scaler.hysteresis && step.grew) track.replay.hysteresis = track.hysteresis;
  policy->restore(track.replay);
  step.fatal_next = policy->fatal();
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

void push_window(ScalerTrack& track, const WindowItem& item, std::uint32_t limit);

// Attempts that a log passed over: they were applied.
void pass(ScalerTrack& track, OptimizerTrack& optimizer, std::uint64_t attempts) {
  optimizer.applied += attempts;
  optimizer.calibrating = false;
  optimizer.consecutive_skips = 0;
  track.consecutive_skips = 0;
  track.unmoved_skips = 0;
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

Policy* ScalerTrack::policy() const {
  if (!machine) machine = make_policy(info.policy, info.parameters);
  return machine.get();
}

ScalerTrack make_track(const ScalerInfo& info) {
  ScalerTrack track;
  track.info = info;
  if (const auto policy = make_policy(info.policy, info.parameters)) {
    track.hysteresis = policy->hysteresis();
    track.init = policy->init_scale();
    track.floor = policy->floor().value_or(0);
    track.dynamic = policy->dynamic();
    track.guards = policy->guards();
    track.replay = policy->state();
    track.rates_known = std::any_of(info.parameters.begin(), info.parameters.end(), [](const auto& parameter) {
      return parameter.first != "init_scale" && parameter.first != "loss_scale" && parameter.first != "min_scale";
    });
  } else {
    track.hysteresis = static_cast<std::int32_t>(std::clamp(parameter_or(info.parameters, "hysteresis", 1), 1.0, 1000.0));
    track.init = parameter_or(info.parameters, "init_scale", 0);
    track.floor = parameter_or(info.parameters, "min_scale", 0);
  }
  return track;
}

bool same_scale(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b));
}

double explained_skips(const ScalerTrack& track, double scale) {
  constexpr int kMost = 1000;
  if (Policy* const policy = track.policy(); policy != nullptr && track.dynamic) {
    // As a scaler that starts anew.
    PolicyState fresh;
    fresh.hysteresis = policy->hysteresis();
    fresh.scale = policy->init_scale();
    policy->restore(fresh);
    policy->resync({track.init, {}, {}});
    int skips = 0;
    while (policy->scale() > scale && !policy->at_floor() && skips < kMost) {
      policy->update(true);
      ++skips;
    }
    return skips + track.hysteresis;
  }
  const double search = track.init > 0 && scale > 0 ? std::log2(track.init / scale) : 0;
  return std::max(0.0, search) + track.hysteresis;
}

AttemptOutcome combine(AttemptOutcome a, AttemptOutcome b) {
  if (a == AttemptOutcome::kUnknown) return b;
  if (b == AttemptOutcome::kUnknown || a == b) return a;
  return AttemptOutcome::kPartial;
}

Outcome decide_outcome(const ScalerTrack& track, const ScalerObservation& scaler, const OptimizerObservation* observation,
                       bool fused, bool alone) {
  return decide_outcome(track, scaler.scale_before, scaler, observation, fused, alone);
}

Outcome decide_outcome(const ScalerTrack& track, const std::optional<double>& scale_before, const ScalerObservation& scaler,
                       const OptimizerObservation* observation, bool fused, bool alone) {
  const double* const decided =
      observation != nullptr && observation->found_inf_decided ? &*observation->found_inf_decided : nullptr;
  // A fused kernel skips on exactly 1, whatever the trainer believes.
  if (fused && decided != nullptr && *decided != 0 && *decided != 1) return Outcome::kApplied;
  if (observation != nullptr && observation->outcome != Outcome::kUnknown) return observation->outcome;
  if (!track.guards) return Outcome::kApplied;
  if (decided != nullptr) return *decided != 0 ? Outcome::kSkipped : Outcome::kApplied;
  const auto after = scaler.scale_after;
  if (track.dynamic && scale_before && after && scaler.optimizers.size() <= 1) {
    if (*after < *scale_before) return Outcome::kSkipped;
    // A skip may leave the scale as it is while hysteresis lasts, at the floor, and once it is gone.
    // A printed scale may be older than the attempt.
    if (track.hysteresis == 1 && !track.from_log && *scale_before > track.floor && *scale_before > 0) return Outcome::kApplied;
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

ScalerStep advance(ScalerTrack& track, const ScalerObservation& scaler, const RankInfo* rank, Rank number, Attempt attempt,
                   std::int64_t step, bool alone, const Thresholds& thresholds) {
  const std::uint64_t passed = std::min<std::uint64_t>(scaler.applied_before, attempt - 1);
  const bool next = attempt == track.last_attempt + passed + 1 && track.last_attempt != 0;
  const auto previous = track.last_attempt != 0 ? track.scale : std::nullopt;
  const Attempt previous_attempt = std::exchange(track.last_attempt, attempt);

  ScalerStep result;
  result.scale_before = !scaler.scale_before && next ? track.scale : scaler.scale_before;
  const std::optional<double>& before = result.scale_before;
  result.rank = number;
  result.attempt = attempt;
  result.step = step;
  result.next = next;
  result.passed = passed;
  result.fatal = scaler.fatal;
  result.previous_attempt = previous_attempt;
  result.tracker_same = scaler.growth_tracker && scaler.growth_tracker == track.growth_tracker;
  result.previous = previous;
  result.scale_after = scaler.scale_after;
  if (!track.scale_first && before && std::isfinite(*before) && *before > 0) {
    // An initial scale that nobody said and that the default can't be: the largest that any scaler starts from.
    if (track.init == 0) {
      track.init = *before;
    } else if (track.dynamic && !track.info.parameters.contains("init_scale") && *before > track.init) {
      track.init = std::max(0x1p32, *before);
    }
  }
  if (track.dynamic && before && scaler.scale_after) {
    result.grew = *scaler.scale_after > *before;
    result.backed_off = *scaler.scale_after < *before;
  }
  // A growth within lost reports still explains a skip.
  if (track.dynamic && (!next || passed > 0) && previous && before && *before > *previous) {
    result.grew = true;
  }

  static const std::string kUnnamed;
  const auto take = [&](std::uint32_t index, const std::string& name, Outcome outcome) {
    OptimizerTrack* optimizer = optimizer_track(track, index, name, attempt, step);
    if (optimizer == nullptr) return;
    // The scale that a first skip was attempted with is what the search had come to. In a log lines may be missing later too.
    if (optimizer->calibrating && (optimizer->first_attempt == attempt || (track.from_log && !next)) &&
        began_in_the_middle(track, before, attempt)) {
      optimizer->calibrating = false;
    }
    const bool searching = optimizer->calibrating;
    // Lines that are missing from a log may have told of anything.
    if (track.from_log && !next) optimizer->consecutive_skips = 0;
    if (track.from_log && searching && optimizer->first_attempt == attempt && outcome == Outcome::kSkipped && before &&
        passed == 0) {
      optimizer->unseen_skips = attempt - 1;
    }
    if (passed > 0) pass(track, *optimizer, passed);
    const bool was_calibrating = passed == 0 && searching;
    count(*optimizer, outcome, attempt, step);
    result.optimizers.push_back({static_cast<std::size_t>(optimizer - track.optimizers.data()), outcome, was_calibrating,
                                 searching && !optimizer->calibrating});
    result.outcome = combine(result.outcome, static_cast<AttemptOutcome>(outcome));
  };
  if (scaler.optimizers.empty()) take(0, kUnnamed, decide_outcome(track, before, scaler, nullptr, false, alone));
  for (const OptimizerObservation& observation : scaler.optimizers) {
    const OptimizerInfo* info = rank != nullptr ? rank->optimizer(observation.optimizer) : nullptr;
    take(observation.optimizer, info != nullptr ? info->name : kUnnamed,
         decide_outcome(track, before, scaler, &observation, info != nullptr && info->fused, alone));
  }

  track.applied += passed;
  const auto told = std::min<std::uint64_t>(passed, thresholds.frequent_skips_window);
  for (std::uint64_t back = told; back > 0; --back) {
    push_window(track, {attempt - back, step, false, false}, thresholds.frequent_skips_window);
  }

  replay(track, scaler, next && passed == 0, result);

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
  if (result.outcome == AttemptOutcome::kSkipped && before && scaler.scale_after) {
    const bool unmoved = *scaler.scale_after == *before && *scaler.scale_after > track.floor;
    track.unmoved_skips = unmoved ? track.unmoved_skips + 1 : 0;
    if (track.consecutive_skips == 1) track.largest_fall = 0;
    if (result.backed_off && *scaler.scale_after > 0) {
      track.largest_fall = std::max(track.largest_fall, std::log2(*before / *scaler.scale_after));
    }
  } else if (result.outcome != AttemptOutcome::kUnknown) {
    track.unmoved_skips = 0;
  }
  if (result.grew) ++track.growths;
  if (scaler.scale_after) {
    track.scale = scaler.scale_after;
  } else if (before) {
    track.scale = before;
  }
  for (const auto& value : {before, scaler.scale_after}) {
    if (!value) continue;
    if (!track.scale_first) track.scale_first = value;
    if (!track.scale_min || *value < *track.scale_min) track.scale_min = value;
  }
  if (scaler.growth_tracker) track.growth_tracker = scaler.growth_tracker;
  if (scaler.hysteresis) track.told_hysteresis = scaler.hysteresis;
  if (before && (track.changes.empty() || track.changes.back().scale != *before)) {
    track.changes.push_back({step, *before});
    if (track.changes.size() > ScalerTrack::kMaxChanges) track.changes.pop_front();
  }
  result.scaler = &track;
  return result;
}

}  // namespace scalewatch::domain

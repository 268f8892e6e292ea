// One scaler's attempt: what its leader's observation says, and how it moves the track.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/domain/model.h"

namespace scalewatch::domain {

struct OptimizerStep {
  std::size_t track = 0;  // index in ScalerTrack::optimizers
  Outcome outcome = Outcome::kUnknown;
  bool was_calibrating = true;
};

// What scaler rules look at, right after the track was moved.
struct ScalerStep {
  const ScalerTrack* scaler = nullptr;
  Rank rank = 0;
  Attempt attempt = 0;
  std::int64_t step = 0;
  std::optional<double> scale_before;
  std::optional<double> scale_after;
  AttemptOutcome outcome = AttemptOutcome::kUnknown;
  bool grew = false;
  bool backed_off = false;
  bool after_calibration = false;  // some optimizer that had been applied before took part
  std::vector<OptimizerStep> optimizers;
};

// A track for a scaler that a rank named.
ScalerTrack make_track(const ScalerInfo& info);

// What the optimizer did by the trainer's word, its found_inf, or its scale, in that order.
// `observation` may be null: the scaler's report names no optimizer.
Outcome decide_outcome(const ScalerTrack& track, const ScalerObservation& scaler, const OptimizerObservation* observation,
                       bool fused, bool alone);
// Over all optimizers of one rank's observation.
AttemptOutcome decide_attempt(const ScalerTrack& track, const ScalerObservation& scaler, const RankInfo* rank, bool alone);
AttemptOutcome combine(AttemptOutcome a, AttemptOutcome b);

// Moves the track by one attempt that is newer than track.last_attempt.
ScalerStep advance(ScalerTrack& track, const ScalerObservation& seen, const RankInfo* rank, Rank number, Attempt attempt,
                   std::int64_t step, bool alone, const Thresholds& thresholds);

}  // namespace scalewatch::domain

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
  bool search_ended = false;  // at this attempt, or at those that a log passed over right before it
};

// What scaler rules look at, right after the track was moved.
struct ScalerStep {
  const ScalerTrack* scaler = nullptr;
  const RankReport* report = nullptr;  // that told it; null: it came too late to be joined
  Rank rank = 0;
  Attempt attempt = 0;
  std::int64_t step = 0;
  std::optional<double> scale_before;
  std::optional<double> scale_after;
  AttemptOutcome outcome = AttemptOutcome::kUnknown;
  bool grew = false;
  bool backed_off = false;
  bool after_calibration = false;  // some optimizer that had been applied before took part
  bool next = false;               // no attempt is missing between this one and the one before
  std::uint64_t passed = 0;        // attempts right before this one that were applied and are not told one by one (logs)
  std::optional<double> previous;  // scale after the attempt seen before; absent at the first
  Attempt previous_attempt = 0;    // that attempt
  bool tracker_same = false;       // the growth tracker reads as it did after that attempt
  // What the policy makes of scale_before, where that is certain: its parameters and counters are known.
  std::optional<double> expected_after;
  bool at_floor = false;       // no number of skips could have lowered the scale
  std::string fatal_next;      // not empty: the next skip ends the run, and why
  std::string fatal;           // not empty: this attempt ended the run, and why
  bool tracker_stood = false;  // the growth tracker should have moved and did not
  Few<OptimizerStep> optimizers;
};

// A track for a scaler that a rank named.
ScalerTrack make_track(const ScalerInfo& info);

// What the optimizer did by the trainer's word, its found_inf, or its scale, in that order.
// `observation` may be null: the scaler's report names no optimizer.
Outcome decide_outcome(const ScalerTrack& track, const ScalerObservation& scaler, const OptimizerObservation* observation,
                       bool fused, bool alone);
// The same of a scaler whose scale before the attempt is known otherwise.
Outcome decide_outcome(const ScalerTrack& track, const std::optional<double>& scale_before, const ScalerObservation& scaler,
                       const OptimizerObservation* observation, bool fused, bool alone);
// Over all optimizers of one rank's observation.
AttemptOutcome decide_attempt(const ScalerTrack& track, const ScalerObservation& scaler, const RankInfo* rank, bool alone);
AttemptOutcome combine(AttemptOutcome a, AttemptOutcome b);

// Equal but for how a float or a printed number rounds.
bool same_scale(double a, double b);

// How many skips the scale explains: the search that led from its initial value to `scale`, and the hysteresis.
double explained_skips(const ScalerTrack& track, double scale);

// Moves the track by one attempt that is newer than track.last_attempt.
ScalerStep advance(ScalerTrack& track, const ScalerObservation& seen, const RankInfo* rank, Rank number, Attempt attempt,
                   std::int64_t step, bool alone, const Thresholds& thresholds);

}  // namespace scalewatch::domain

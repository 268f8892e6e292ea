// What a run's attempts say of non-finite values and skips, counted for metrics. Counts begin with the segment, or with this
// server's knowledge of the run: what a restart folds again is not counted.
//
// Not thread-safe: the run's strand owns one.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "server/domain/observation.h"
#include "server/engine/readings.h"

namespace scalewatch::engine {

class RunMeter {
 public:
  // A rank's report of the newest segment. `open`: its attempt is not closed yet.
  void take(const domain::AttemptDigest& digest, bool open);
  // No more reports will change this attempt and those before it.
  void close(domain::Attempt attempt);
  // A new segment.
  void reset();
  // Fills the counts and hystereses of `out`; scalers as far as they told one.
  void tell(RunReadings& out) const;

 private:
  // By SkipReason, of what some rank held at an attempt.
  using Seen = std::bitset<kSkipReasons>;
  struct Note {
    Seen seen;
    std::bitset<kRoles> roles;
    bool applied = false;
    bool skipped = false;
  };
  static void note_outcome(const domain::AttemptDigest& digest, Note& note);

  std::map<domain::Attempt, Note> open_;  // as many as the run has open
  std::vector<std::optional<std::int32_t>> hysteresis_;
  RunReadings counts_;  // only its counts are used
};

}  // namespace scalewatch::engine

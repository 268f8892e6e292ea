// Every number that a rule compares against, with its default; configurable per run. Windows count attempts.
#pragma once

#include <cstdint>

#include "server/domain/observation.h"

namespace scalewatch::domain {

struct Thresholds {
  // FrequentSkippedSteps: excess = skipped - h * (growths + 1) over the window, after calibration.
  std::uint32_t frequent_skips_window = 200;
  std::uint32_t frequent_skips_min_excess = 5;
  double frequent_skips_excess_share = 0.05;    // of the window
  double frequent_skips_critical_share = 0.25;  // skipped, of the window
  // ConsecutiveSkips
  std::uint32_t consecutive_skips = 5;
  // NeverApplied
  std::uint32_t never_applied_slack = 4;       // attempts beyond log2(init) + h
  std::uint32_t never_applied_at_end = 12;     // attempts, when the run ends
  // ScaleCollapse
  double collapse_octaves = 6;                 // below the median of post-calibration attempts
  std::uint32_t collapse_min_attempts = 200;
  double collapse_absolute = 0x1p-7;           // warning
  double collapse_critical = 0x1p-14;
  // RankLost, EndedWithoutGoodbye
  TimeMs rank_lost_after_ms = 60'000;
  TimeMs rank_alive_within_ms = 15'000;        // a rank seen within this still beats
};

}  // namespace scalewatch::domain

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
  // It resolves when the excess is under this share of what it takes to fire, so that it does not flap.
  double frequent_skips_resolve_share = 0.5;
  // ConsecutiveSkips
  std::uint32_t consecutive_skips = 5;
  std::uint32_t consecutive_skips_resolve = 20;  // attempts since such a streak ended
  // NeverApplied
  std::uint32_t never_applied_slack = 4;    // attempts beyond log2(init) + h
  std::uint32_t never_applied_at_end = 12;  // attempts, when the run ends
  // ScaleCollapse
  double collapse_octaves = 6;  // below the median of post-calibration attempts
  std::uint32_t collapse_min_attempts = 200;
  double collapse_absolute = 0x1p-7;  // warning
  double collapse_critical = 0x1p-14;
  std::uint32_t collapse_window = 1000;           // attempts that the median is taken over
  std::uint32_t collapse_backoffs_below_one = 2;  // without a growth between
  double collapse_resolve_octaves = 2;            // nearer to the median (or above the absolute limit) than what fires
  std::uint32_t collapse_resolve = 200;           // attempts in a row without any of its conditions
  // ScaleVanished
  double vanished_below = 0x1p-126;  // fp32's smallest normal: scales under it are subnormal, under 2^-128 1/scale is Inf
  // NonFiniteGradient
  // Attempts that blame one tensor, beyond those that growth or calibration explain, ...
  std::uint32_t non_finite_gradient_one_tensor = 3;
  // ... within so many: a scaler that rides the edge gathers a few over thousands of attempts.
  std::uint32_t non_finite_gradient_window = 20;
  double non_finite_gradient_init_scale = 0x1p16;  // overflow at the first attempt under more than this is calibration
  // NonFiniteLoss
  std::uint32_t non_finite_loss_critical = 2;  // in a row
  // Findings of single attempts (NonFiniteGradient, NonFiniteApplied, NonFiniteLoss, RankDisagreement) resolve after so many
  // attempts without.
  std::uint32_t event_resolve = 50;
  // An open finding that goes on is told again for display after so many attempts.
  std::uint32_t update_every = 25;
  // StatsDropped resolves after so many closed attempts in which nothing more was lost.
  std::uint32_t stats_dropped_resolve = 200;
  // RankLost, EndedWithoutGoodbye
  TimeMs rank_lost_after_ms = 60'000;
  TimeMs rank_alive_within_ms = 15'000;  // a rank seen within this still beats
};

}  // namespace scalewatch::domain

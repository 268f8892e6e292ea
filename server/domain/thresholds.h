// Every number that a rule compares against, with its default; configurable per run. Windows count attempts. They may change
// while a run goes on (RulesChanged): the engine logs them by name, so each is listed in server/engine/rules_codec.cc too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/domain/observation.h"

namespace scalewatch::domain {

struct Thresholds {
  // Rules, by name, that find nothing.
  std::vector<std::string> off{};
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
  // NonFiniteGradient in a search that began at or under that scale: skips that blame one tensor while forward was finite. One
  // fires on a third of the healthy runs that start from 2^16, three on 1%.
  std::uint32_t non_finite_gradient_search = 6;
  // CalibrationTooLong
  std::uint32_t calibration_skips = 12;  // more than these
  // StepFrozen
  // On one step, with a skip between; beyond a scaler's hysteresis. Three fire on 2% of healthy runs whose trainer numbers a
  // step again when it was skipped.
  std::uint32_t step_frozen_attempts = 4;
  // ScaleAtMinimum
  std::uint32_t scale_at_minimum_window = 20;   // attempts
  std::uint32_t scale_at_minimum_critical = 3;  // skips at the floor within them
  // ScaleRunaway
  double runaway_scale = 0x1p32;    // above this ...
  double runaway_octaves = 8;       // ... and so far above the initial scale
  std::uint32_t runaway_zeros = 2;  // samples in a row in which every gradient was 0 while the scale grows
  // ScaleStuck
  std::uint32_t scale_stuck = 2;  // changes that did not come, in a row
  // ScaleDrift: backoffs without any growth between
  std::uint32_t drift_info = 3;
  std::uint32_t drift_warning = 6;  // within drift_window
  std::uint32_t drift_window = 200;
  double drift_norm_octaves = 1;  // that the gradient norm rose meanwhile: a warning at drift_info already
  // Misuse
  std::uint32_t clipped_attempts = 10;    // in a row with the same norm under the scale
  double clipped_spread = 1e-3;           // relative, of those norms
  std::uint32_t tracker_stands = 5;       // applied attempts in a row without the growth tracker moving: update() is missing
  double schedule_share = 0.05;           // of the schedule that went by on skipped steps: a warning
  std::uint32_t schedule_attempts = 100;  // the shortest schedule that this is a share of
  // LossSpike
  std::uint32_t loss_spike_in_a_row = 3;
  std::uint32_t loss_spike_min_samples = 20;
  std::uint32_t loss_spike_window = 200;  // samples that the median is taken over
  double loss_spike_mads = 14.8;          // 10 sigma of Gaussian noise above the median,
  double loss_spike_share = 0.05;         // and at least this share of it
  double loss_spike_early_ratio = 3;      // times the median, at one of two consecutive backoffs
  // GradNormSpike
  double norm_spike_octaves = 5;
  std::uint32_t norm_spike_times = 3;  // within norm_spike_recent samples
  std::uint32_t norm_spike_recent = 20;
  double norm_spike_once_octaves = 8;
  std::uint32_t norm_spike_min_samples = 20;
  std::uint32_t norm_spike_window = 200;  // samples that the median is taken over
  std::uint32_t coarse_log = 50;          // attempts from one record to the next that make a log a coarse one
  // LossUnchanged
  std::uint32_t loss_unchanged_applied = 1000;
  std::uint32_t loss_unchanged_records = 20;  // in a log of coarse records
  double loss_unchanged_sigmas = 1;           // of the loss's own noise
  // RunStalled: no report for the largest of these
  TimeMs stalled_after_ms = 600'000;
  double stalled_medians = 20;  // times the median gap between attempts
  double stalled_longest = 5;   // times the longest gap
  std::uint32_t stalled_min_attempts = 20;
  TimeMs stalled_server_up_ms = 300'000;  // a server that started later ago than this has not listened long enough
  // Rules over tensors count samples, which are records of the tensor: an attempt that did not measure it is none.
  std::uint32_t tensor_window = 20;  // samples that LowHeadroom, RangeTooWide and Fp8Saturation look back; at most 32
  // GradientUnderflow: for so many samples in a row (or attempts, when every gradient is zero), and so many without to resolve
  std::uint32_t underflow_samples = 20;
  double underflow_subnormal_share = 0.5;  // of the non-zero elements
  double underflow_zero_rise = 0.5;        // of what was non-zero, gone to zero
  double underflow_headroom = 3;           // octaves that the limiting tensor has left: a warning, if it concerns
  double underflow_min_parameters = 0.01;  // this share of the parameters,
  double underflow_parameters = 0.1;       // and with this share anyhow
  // LowHeadroom
  double low_headroom_octaves = 2;
  std::uint32_t low_headroom_samples = 10;  // of tensor_window
  // AllZeroGradient
  std::uint32_t all_zero_gradient_samples = 50;  // in a row
  // DominantGradient
  double dominant_gradient_share = 0.6;          // of the squared norm
  std::uint32_t dominant_gradient_samples = 20;  // in a row
  // OptimizerStateUnderflow: second moments that are zero where the gradient is not, of its non-zero elements
  double optimizer_state_underflow_share = 0.01;
  // RangeTooWide
  double range_too_wide_share = 0.01;         // of the non-zero elements, subnormal
  double range_too_wide_octaves = 2;          // and less headroom than this
  std::uint32_t range_too_wide_samples = 10;  // of tensor_window
  // LostUpdates: lr / rms(w)
  double lost_updates_fp16 = 0x1p-12;
  double lost_updates_bf16 = 0x1p-9;
  std::uint32_t lost_updates_samples = 3;  // in a row, while lr does not rise
  double lost_updates_decayed = 0.1;       // of the largest lr: updates under it are the end of a schedule, and only info
  // Fp8Saturation
  std::uint32_t fp8_saturation_samples = 5;  // of tensor_window
  // NonFiniteActivation: -Inf in one of a tensor's first samples makes it a mask; at most 255
  std::uint32_t mask_samples = 20;
  // Findings of single attempts (NonFiniteGradient, NonFiniteApplied, NonFiniteLoss, RankDisagreement) resolve after so many
  // attempts without.
  std::uint32_t event_resolve = 50;
  // An open finding that goes on is told again for display after so many attempts.
  std::uint32_t update_every = 25;
  // StatsDropped resolves after so many closed attempts in which nothing more was lost.
  std::uint32_t stats_dropped_resolve = 200;
  // HistoryDegraded: the store has taken nothing for so long. IngestLag: reports wait so long to be stored; resolves at half.
  TimeMs history_degraded_after_ms = 3000;
  TimeMs ingest_lag_ms = 5000;
  // RankLost, EndedWithoutGoodbye
  TimeMs rank_lost_after_ms = 60'000;
  TimeMs rank_alive_within_ms = 15'000;  // a rank seen within this still beats
  // A run of which nothing was heard for so long is gone: what is open of it resolves. 0 = it stays open until the run is back.
  TimeMs run_gone_after_ms = 24LL * 3600 * 1000;

  bool operator==(const Thresholds&) const = default;
};

}  // namespace scalewatch::domain

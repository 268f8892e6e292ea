#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "server/app/settings.h"
#include "server/domain/run_state.h"

namespace scalewatch::app {
namespace {

std::vector<std::string> parse_names(const std::string& text) {
  std::vector<std::string> names;
  std::string name;
  for (const char c : text + ",") {
    if (c == ',') {
      if (!name.empty()) names.push_back(std::exchange(name, {}));
    } else if (c != ' ') {
      name += c;
    }
  }
  return names;
}

}  // namespace

void add_rule_settings(domain::Thresholds& t, std::vector<Setting>& all) {
  constexpr std::uint64_t kMost = 1'000'000;
  const auto attempts = [&](const char* key, std::uint32_t& field, std::uint64_t min, const char* help) {
    all.push_back(number(std::string("rules.") + key, field, min, kMost, help));
  };
  const auto share = [&](const char* key, double& field, const char* help) {
    all.push_back(real(std::string("rules.") + key, field, 0, 1, help));
  };
  const auto value = [&](const char* key, double& field, double max, const char* help) {
    all.push_back(real(std::string("rules.") + key, field, 0, max, help));
  };
  const auto any_time = [&](const char* key, domain::TimeMs& field, const char* range, bool never, std::int64_t most,
                            const char* help) {
    all.push_back({std::string("rules.") + key, range, help,
                   [&field, never, most](const std::string& text) {
                     const auto parsed = parse_duration(text);
                     if (!parsed || *parsed > most || (*parsed < 1000 && !(never && *parsed == 0))) return false;
                     field = *parsed;
                     return true;
                   },
                   [&field] { return format_duration(field); }});
  };
  constexpr std::int64_t kDayMs = 86'400'000;
  const auto time = [&](const char* key, domain::TimeMs& field, const char* help) {
    any_time(key, field, "a duration from 1s to 7d", false, 7 * kDayMs, help);
  };
  all.push_back({"rules.off", "names of rules with commas between", "rules that find nothing, such as LossSpike, ScaleDrift",
                 [&t](const std::string& text) {
                   auto names = parse_names(text);
                   const auto known = domain::rule_names();
                   for (const std::string& name : names) {
                     if (std::find(known.begin(), known.end(), name) == known.end()) return false;
                   }
                   t.off = std::move(names);
                   return true;
                 },
                 [&t] { return fmt::format("{}", fmt::join(t.off, ", ")); }});
  attempts("frequent_skips_window", t.frequent_skips_window, 1, "FrequentSkippedSteps: attempts looked at");
  attempts("frequent_skips_min_excess", t.frequent_skips_min_excess, 1, "skips beyond those that growth explains");
  share("frequent_skips_excess_share", t.frequent_skips_excess_share, "or this share of the window");
  share("frequent_skips_critical_share", t.frequent_skips_critical_share, "skipped share of the window that is critical");
  share("frequent_skips_resolve_share", t.frequent_skips_resolve_share, "resolves below this share of what fires");
  attempts("consecutive_skips", t.consecutive_skips, 1, "ConsecutiveSkips: attempts in a row");
  attempts("consecutive_skips_resolve", t.consecutive_skips_resolve, 1, "resolves so many attempts after such a row");
  attempts("never_applied_slack", t.never_applied_slack, 0, "NeverApplied: attempts beyond what calibration may take");
  attempts("never_applied_at_end", t.never_applied_at_end, 1, "attempts, when the run ends");
  value("collapse_octaves", t.collapse_octaves, 256, "ScaleCollapse: octaves below the median scale");
  attempts("collapse_min_attempts", t.collapse_min_attempts, 1, "attempts before the median counts");
  value("collapse_absolute", t.collapse_absolute, 1e30, "scale below which it is a warning");
  value("collapse_critical", t.collapse_critical, 1e30, "scale below which it is critical");
  attempts("collapse_window", t.collapse_window, 1, "attempts that the median is taken over");
  attempts("collapse_backoffs_below_one", t.collapse_backoffs_below_one, 1, "backoffs below scale 1 without a growth between");
  value("collapse_resolve_octaves", t.collapse_resolve_octaves, 256, "octaves nearer than what fires");
  attempts("collapse_resolve", t.collapse_resolve, 1, "resolves after so many attempts without");
  value("vanished_below", t.vanished_below, 1, "ScaleVanished: scale below which 1/scale is lost");
  attempts("non_finite_gradient_one_tensor", t.non_finite_gradient_one_tensor, 1,
           "NonFiniteGradient: attempts blaming one tensor");
  attempts("non_finite_gradient_window", t.non_finite_gradient_window, 1, "within so many attempts");
  value("non_finite_gradient_init_scale", t.non_finite_gradient_init_scale, 1e38,
        "a first overflow above this scale is calibration");
  attempts("non_finite_loss_critical", t.non_finite_loss_critical, 1, "NonFiniteLoss: in a row that are critical");
  attempts("non_finite_gradient_search", t.non_finite_gradient_search, 1,
           "skips of a search from at most that scale that blame one tensor");
  attempts("calibration_skips", t.calibration_skips, 1,
           "CalibrationTooLong: more skips than this before the first applied step");
  attempts("step_frozen_attempts", t.step_frozen_attempts, 2, "StepFrozen: attempts on one step");
  attempts("scale_at_minimum_window", t.scale_at_minimum_window, 1, "ScaleAtMinimum: attempts looked at");
  attempts("scale_at_minimum_critical", t.scale_at_minimum_critical, 1, "skips at the floor among them that are critical");
  value("runaway_scale", t.runaway_scale, 1e38, "ScaleRunaway: scale above which it is a warning,");
  value("runaway_octaves", t.runaway_octaves, 256, "and octaves above the initial scale");
  attempts("runaway_zeros", t.runaway_zeros, 1, "samples in a row with all gradients 0 while the scale grows");
  attempts("scale_stuck", t.scale_stuck, 1, "ScaleStuck: changes in a row that did not come");
  attempts("drift_info", t.drift_info, 1, "ScaleDrift: backoffs without a growth between");
  attempts("drift_warning", t.drift_warning, 1, "so many of them within drift_window are a warning");
  attempts("drift_window", t.drift_window, 1, "attempts");
  value("drift_norm_octaves", t.drift_norm_octaves, 64, "rise of the gradient norm meanwhile that is a warning");
  attempts("clipped_attempts", t.clipped_attempts, 2, "Misuse: attempts in a row with one norm under the scale");
  share("clipped_spread", t.clipped_spread, "how much those norms may differ");
  attempts("tracker_stands", t.tracker_stands, 1, "applied attempts without the growth tracker moving");
  share("schedule_share", t.schedule_share, "share of the schedule lost on skipped steps that is a warning");
  attempts("schedule_attempts", t.schedule_attempts, 1, "the shortest schedule that this is a share of");
  attempts("loss_spike_in_a_row", t.loss_spike_in_a_row, 1, "LossSpike: attempts in a row");
  attempts("loss_spike_min_samples", t.loss_spike_min_samples, 1, "samples before the median counts");
  attempts("loss_spike_window", t.loss_spike_window, 1, "samples that the median is taken over");
  value("loss_spike_mads", t.loss_spike_mads, 1e6, "median absolute deviations above the median,");
  share("loss_spike_share", t.loss_spike_share, "and at least this share of it");
  value("loss_spike_early_ratio", t.loss_spike_early_ratio, 1e6, "times the median at one of two consecutive backoffs");
  value("norm_spike_octaves", t.norm_spike_octaves, 64, "GradNormSpike: octaves above the median,");
  attempts("norm_spike_times", t.norm_spike_times, 1, "so many times");
  attempts("norm_spike_recent", t.norm_spike_recent, 1, "within so many samples");
  value("norm_spike_once_octaves", t.norm_spike_once_octaves, 64, "or once by so many octaves");
  attempts("norm_spike_min_samples", t.norm_spike_min_samples, 1, "samples before the median counts");
  attempts("norm_spike_window", t.norm_spike_window, 1, "samples that the median is taken over");
  attempts("coarse_log", t.coarse_log, 2, "attempts from one record to the next that make a log a coarse one");
  attempts("loss_unchanged_applied", t.loss_unchanged_applied, 1, "LossUnchanged: applied steps");
  attempts("loss_unchanged_records", t.loss_unchanged_records, 1, "records of a coarse log");
  value("loss_unchanged_sigmas", t.loss_unchanged_sigmas, 100, "of the loss's own noise that count as unchanged");
  time("stalled_after", t.stalled_after_ms, "RunStalled: no report for so long,");
  value("stalled_medians", t.stalled_medians, 1e6, "and for so many times the median gap between attempts,");
  value("stalled_longest", t.stalled_longest, 1e6, "and for so many times the longest gap");
  attempts("stalled_min_attempts", t.stalled_min_attempts, 2, "attempts before it can be told");
  time("stalled_server_up", t.stalled_server_up_ms, "the server has been listening for so long");
  all.push_back(number("rules.tensor_window", t.tensor_window, 1, 32,
                       "LowHeadroom, RangeTooWide, Fp8Saturation: samples of a tensor looked at"));
  const auto samples = [&](const char* key, std::uint32_t& field, std::uint64_t max, const char* help) {
    all.push_back(number(std::string("rules.") + key, field, 1, max, help));
  };
  samples("underflow_samples", t.underflow_samples, 255, "GradientUnderflow: samples in a row");
  share("underflow_subnormal_share", t.underflow_subnormal_share, "subnormal share of the non-zero elements");
  share("underflow_zero_rise", t.underflow_zero_rise, "or share of what was non-zero and is zero now");
  value("underflow_headroom", t.underflow_headroom, 64, "octaves left to the largest gradient that are a warning");
  share("underflow_min_parameters", t.underflow_min_parameters, "when this share of the parameters is concerned,");
  share("underflow_parameters", t.underflow_parameters, "and with this share anyhow");
  value("low_headroom_octaves", t.low_headroom_octaves, 64, "LowHeadroom: octaves");
  samples("low_headroom_samples", t.low_headroom_samples, 32, "samples of tensor_window");
  samples("all_zero_gradient_samples", t.all_zero_gradient_samples, 65535, "AllZeroGradient: samples in a row");
  share("dominant_gradient_share", t.dominant_gradient_share, "DominantGradient: share of the squared norm");
  samples("dominant_gradient_samples", t.dominant_gradient_samples, 65535, "samples in a row");
  share("optimizer_state_underflow_share", t.optimizer_state_underflow_share,
        "OptimizerStateUnderflow: second moments lost, of the gradient's non-zero elements");
  share("range_too_wide_share", t.range_too_wide_share, "RangeTooWide: subnormal share of the non-zero elements");
  value("range_too_wide_octaves", t.range_too_wide_octaves, 64, "with less headroom than so many octaves");
  samples("range_too_wide_samples", t.range_too_wide_samples, 32, "samples of tensor_window");
  share("lost_updates_fp16", t.lost_updates_fp16, "LostUpdates: learning rate over the rms of fp16 weights");
  share("lost_updates_bf16", t.lost_updates_bf16, "and of bf16 weights");
  samples("lost_updates_samples", t.lost_updates_samples, 65535, "samples in a row");
  share("lost_updates_decayed", t.lost_updates_decayed, "only info below this share of the largest learning rate");
  samples("fp8_saturation_samples", t.fp8_saturation_samples, 32, "Fp8Saturation: samples of tensor_window");
  samples("mask_samples", t.mask_samples, 255, "NonFiniteActivation: first samples whose -Inf makes a mask");
  attempts("event_resolve", t.event_resolve, 1, "findings of single attempts resolve after so many without");
  attempts("update_every", t.update_every, 1, "an open finding is told again after so many attempts");
  attempts("stats_dropped_resolve", t.stats_dropped_resolve, 1, "StatsDropped: resolves after so many without a loss");
  time("history_degraded_after", t.history_degraded_after_ms, "HistoryDegraded: nothing was stored for so long");
  time("ingest_lag", t.ingest_lag_ms, "IngestLag: reports wait so long to be stored");
  time("rank_lost_after", t.rank_lost_after_ms, "RankLost: silence of a rank");
  time("rank_alive_within", t.rank_alive_within_ms, "a rank seen within this still counts as alive");
  any_time("run_gone_after", t.run_gone_after_ms, "a duration from 1s to 90d, or 0s", true, 90 * kDayMs,
           "a run that is silent for so long is gone: its alerts resolve; 0s = they stay open until it is back");
}

}  // namespace scalewatch::app

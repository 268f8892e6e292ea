#include "server/engine/rules_codec.h"

#include <array>
#include <nlohmann/json.hpp>
#include <variant>

namespace scalewatch::engine {

namespace {

using domain::Thresholds;
using nlohmann::json;

struct Field {
  const char* name;
  std::variant<std::vector<std::string> Thresholds::*, std::uint32_t Thresholds::*, double Thresholds::*,
               domain::TimeMs Thresholds::*>
      member;
};
constexpr std::array kFields = {
    Field{"off", &Thresholds::off},
    Field{"frequent_skips_window", &Thresholds::frequent_skips_window},
    Field{"frequent_skips_min_excess", &Thresholds::frequent_skips_min_excess},
    Field{"frequent_skips_excess_share", &Thresholds::frequent_skips_excess_share},
    Field{"frequent_skips_critical_share", &Thresholds::frequent_skips_critical_share},
    Field{"frequent_skips_resolve_share", &Thresholds::frequent_skips_resolve_share},
    Field{"consecutive_skips", &Thresholds::consecutive_skips},
    Field{"consecutive_skips_resolve", &Thresholds::consecutive_skips_resolve},
    Field{"never_applied_slack", &Thresholds::never_applied_slack},
    Field{"never_applied_at_end", &Thresholds::never_applied_at_end},
    Field{"collapse_octaves", &Thresholds::collapse_octaves},
    Field{"collapse_min_attempts", &Thresholds::collapse_min_attempts},
    Field{"collapse_absolute", &Thresholds::collapse_absolute},
    Field{"collapse_critical", &Thresholds::collapse_critical},
    Field{"collapse_window", &Thresholds::collapse_window},
    Field{"collapse_backoffs_below_one", &Thresholds::collapse_backoffs_below_one},
    Field{"collapse_resolve_octaves", &Thresholds::collapse_resolve_octaves},
    Field{"collapse_resolve", &Thresholds::collapse_resolve},
    Field{"vanished_below", &Thresholds::vanished_below},
    Field{"non_finite_gradient_one_tensor", &Thresholds::non_finite_gradient_one_tensor},
    Field{"non_finite_gradient_window", &Thresholds::non_finite_gradient_window},
    Field{"non_finite_gradient_init_scale", &Thresholds::non_finite_gradient_init_scale},
    Field{"non_finite_loss_critical", &Thresholds::non_finite_loss_critical},
    Field{"non_finite_gradient_search", &Thresholds::non_finite_gradient_search},
    Field{"calibration_skips", &Thresholds::calibration_skips},
    Field{"step_frozen_attempts", &Thresholds::step_frozen_attempts},
    Field{"scale_at_minimum_window", &Thresholds::scale_at_minimum_window},
    Field{"scale_at_minimum_critical", &Thresholds::scale_at_minimum_critical},
    Field{"runaway_scale", &Thresholds::runaway_scale},
    Field{"runaway_octaves", &Thresholds::runaway_octaves},
    Field{"runaway_zeros", &Thresholds::runaway_zeros},
    Field{"scale_stuck", &Thresholds::scale_stuck},
    Field{"drift_info", &Thresholds::drift_info},
    Field{"drift_warning", &Thresholds::drift_warning},
    Field{"drift_window", &Thresholds::drift_window},
    Field{"drift_norm_octaves", &Thresholds::drift_norm_octaves},
    Field{"clipped_attempts", &Thresholds::clipped_attempts},
    Field{"clipped_spread", &Thresholds::clipped_spread},
    Field{"tracker_stands", &Thresholds::tracker_stands},
    Field{"schedule_share", &Thresholds::schedule_share},
    Field{"schedule_attempts", &Thresholds::schedule_attempts},
    Field{"loss_spike_in_a_row", &Thresholds::loss_spike_in_a_row},
    Field{"loss_spike_min_samples", &Thresholds::loss_spike_min_samples},
    Field{"loss_spike_window", &Thresholds::loss_spike_window},
    Field{"loss_spike_mads", &Thresholds::loss_spike_mads},
    Field{"loss_spike_share", &Thresholds::loss_spike_share},
    Field{"loss_spike_early_ratio", &Thresholds::loss_spike_early_ratio},
    Field{"norm_spike_octaves", &Thresholds::norm_spike_octaves},
    Field{"norm_spike_times", &Thresholds::norm_spike_times},
    Field{"norm_spike_recent", &Thresholds::norm_spike_recent},
    Field{"norm_spike_once_octaves", &Thresholds::norm_spike_once_octaves},
    Field{"norm_spike_min_samples", &Thresholds::norm_spike_min_samples},
    Field{"norm_spike_window", &Thresholds::norm_spike_window},
    Field{"coarse_log", &Thresholds::coarse_log},
    Field{"loss_unchanged_applied", &Thresholds::loss_unchanged_applied},
    Field{"loss_unchanged_records", &Thresholds::loss_unchanged_records},
    Field{"loss_unchanged_sigmas", &Thresholds::loss_unchanged_sigmas},
    Field{"stalled_after_ms", &Thresholds::stalled_after_ms},
    Field{"stalled_medians", &Thresholds::stalled_medians},
    Field{"stalled_longest", &Thresholds::stalled_longest},
    Field{"stalled_min_attempts", &Thresholds::stalled_min_attempts},
    Field{"stalled_server_up_ms", &Thresholds::stalled_server_up_ms},
    Field{"tensor_window", &Thresholds::tensor_window},
    Field{"underflow_samples", &Thresholds::underflow_samples},
    Field{"underflow_subnormal_share", &Thresholds::underflow_subnormal_share},
    Field{"underflow_zero_rise", &Thresholds::underflow_zero_rise},
    Field{"underflow_headroom", &Thresholds::underflow_headroom},
    Field{"underflow_min_parameters", &Thresholds::underflow_min_parameters},
    Field{"underflow_parameters", &Thresholds::underflow_parameters},
    Field{"low_headroom_octaves", &Thresholds::low_headroom_octaves},
    Field{"low_headroom_samples", &Thresholds::low_headroom_samples},
    Field{"all_zero_gradient_samples", &Thresholds::all_zero_gradient_samples},
    Field{"dominant_gradient_share", &Thresholds::dominant_gradient_share},
    Field{"dominant_gradient_samples", &Thresholds::dominant_gradient_samples},
    Field{"optimizer_state_underflow_share", &Thresholds::optimizer_state_underflow_share},
    Field{"range_too_wide_share", &Thresholds::range_too_wide_share},
    Field{"range_too_wide_octaves", &Thresholds::range_too_wide_octaves},
    Field{"range_too_wide_samples", &Thresholds::range_too_wide_samples},
    Field{"lost_updates_fp16", &Thresholds::lost_updates_fp16},
    Field{"lost_updates_bf16", &Thresholds::lost_updates_bf16},
    Field{"lost_updates_samples", &Thresholds::lost_updates_samples},
    Field{"lost_updates_decayed", &Thresholds::lost_updates_decayed},
    Field{"fp8_saturation_samples", &Thresholds::fp8_saturation_samples},
    Field{"mask_samples", &Thresholds::mask_samples},
    Field{"event_resolve", &Thresholds::event_resolve},
    Field{"update_every", &Thresholds::update_every},
    Field{"stats_dropped_resolve", &Thresholds::stats_dropped_resolve},
    Field{"history_degraded_after_ms", &Thresholds::history_degraded_after_ms},
    Field{"ingest_lag_ms", &Thresholds::ingest_lag_ms},
    Field{"rank_lost_after_ms", &Thresholds::rank_lost_after_ms},
    Field{"rank_alive_within_ms", &Thresholds::rank_alive_within_ms},
    Field{"run_gone_after_ms", &Thresholds::run_gone_after_ms},
};
// A field that is not listed above would be lost with a restart. This is a reminder, on the platform that all build on.
static_assert(sizeof(void*) != 8 || sizeof(Thresholds) == 600, "list the new field of Thresholds in kFields");

}  // namespace

const std::shared_ptr<const Thresholds>& built_in_rules() {
  static const auto rules = std::make_shared<const Thresholds>();
  return rules;
}

json encode_rules(const Thresholds& rules) {
  const Thresholds& built_in = *built_in_rules();
  json out = json::object();
  for (const Field& field : kFields) {
    std::visit(
        [&](auto member) {
          if (rules.*member != built_in.*member) out[field.name] = rules.*member;
        },
        field.member);
  }
  return out;
}

Thresholds decode_rules(const json& in) {
  Thresholds out;
  for (const Field& field : kFields) {
    if (!in.contains(field.name)) continue;
    std::visit([&](auto member) { in.at(field.name).get_to(out.*member); }, field.member);
  }
  return out;
}

}  // namespace scalewatch::engine

#include "server/app/settings.h"

namespace scalewatch::app {

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
  const auto time = [&](const char* key, domain::TimeMs& field, const char* help) {
    all.push_back({std::string("rules.") + key, "a duration from 1s to 7d", help,
                   [&field](const std::string& text) {
                     const auto parsed = parse_duration(text);
                     if (!parsed || *parsed < 1000 || *parsed > 604'800'000) return false;
                     field = *parsed;
                     return true;
                   },
                   [&field] { return format_duration(field); }});
  };
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
  value("non_finite_gradient_init_scale", t.non_finite_gradient_init_scale, 1e38,
        "a first overflow above this scale is calibration");
  attempts("non_finite_loss_critical", t.non_finite_loss_critical, 1, "NonFiniteLoss: in a row that are critical");
  attempts("event_resolve", t.event_resolve, 1, "findings of single attempts resolve after so many without");
  attempts("update_every", t.update_every, 1, "an open finding is told again after so many attempts");
  attempts("stats_dropped_resolve", t.stats_dropped_resolve, 1, "StatsDropped: resolves after so many without a loss");
  time("rank_lost_after", t.rank_lost_after_ms, "RankLost: silence of a rank");
  time("rank_alive_within", t.rank_alive_within_ms, "a rank seen within this still counts as alive");
}

}  // namespace scalewatch::app

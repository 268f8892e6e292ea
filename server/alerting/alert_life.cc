#include "server/alerting/alert_life.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "server/alerting/alert_text.h"
#include "server/alerting/inhibition.h"
#include "server/alerting/sink_config.h"
#include "server/engine/finding_codec.h"

namespace scalewatch::alerting {

namespace {

using Change = domain::FindingEvent::Change;

constexpr int kTrailBeginning = 8;
constexpr int kTrailNewest = 56;
constexpr std::size_t kMaxPlaces = 4;

void set_places(const engine::RunContext& run, const domain::Finding& finding, v1::Alert& alert) {
  alert.clear_places();
  if (!run.place_of) return;
  std::vector<domain::Rank> ranks;
  const auto add = [&](domain::Rank rank) {
    if (ranks.size() < kMaxPlaces && std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  };
  if (finding.blame && finding.blame->rank_of_origin) add(*finding.blame->rank_of_origin);
  for (std::size_t i = 0; i < std::min(kMaxPlaces, finding.ranks.size()); ++i) add(finding.ranks[i]);
  for (const domain::Rank rank : ranks) {
    engine::RunContext::Place place = run.place_of(rank);
    if (place.host.empty() && place.gpu_uuid.empty()) continue;
    v1::RankPlace& to = *alert.add_places();
    to.set_rank(rank);
    to.set_host(std::move(place.host));
    to.set_gpu_uuid(std::move(place.gpu_uuid));
  }
}

bool like(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool is_imported(const v1::Alert& alert) {
  const auto label = alert.labels().find(domain::kImportedLabel);
  return label != alert.labels().end() && label->second == "true";
}

std::string with_reason(const std::string& what, const std::string& reason) {
  return reason.empty() ? what : what + ": " + reason;
}

}  // namespace

Taken take_event(const engine::RunContext& run, const domain::FindingEvent& event, AlertEntry& entry) {
  const domain::Finding& finding = event.finding;
  v1::Alert& alert = entry.alert;
  const bool is_new = alert.trail().empty();
  const v1::Severity before = alert.finding().severity();
  *alert.mutable_finding() = engine::to_proto(run.run_uid, finding);
  alert.set_id(alert.finding().id());
  alert.set_run_uid(run.run_uid);
  alert.set_run(run.name);
  alert.clear_labels();
  alert.mutable_labels()->insert(run.labels.begin(), run.labels.end());
  alert.set_fired_ms(finding.first_time);
  // Of several at one moment each counts.
  const bool acknowledged = !finding.acknowledged_by.empty() && (alert.acknowledged_ms() != finding.acknowledged_time ||
                                                                 alert.acknowledged_by() != finding.acknowledged_by);
  const bool worse = !is_new && alert.finding().severity() > before;
  const bool resolved = event.change == Change::kResolved;
  // Nobody takes one back: where the finding has none it was read back from a log that lacks it; see AlertBook::reconcile.
  if (!finding.acknowledged_by.empty()) {
    alert.set_acknowledged_by(finding.acknowledged_by);
    alert.set_acknowledged_ms(finding.acknowledged_time);
    alert.set_comment(finding.acknowledge_comment);
  }
  set_places(run, finding, alert);
  const std::int64_t time_ms = std::max(finding.last_time, finding.acknowledged_time);
  // Each change is later than the one before, also of the same moment: stores and fleets keep and share the latest.
  entry.changed_ms = std::max(entry.changed_ms + 1, time_ms);
  if (is_new) {
    alert.set_state(v1::ALERT_STATE_FIRING);
    note(alert, finding.first_time, v1::ALERT_STATE_FIRING, {},
         fmt::format("opened as {}{}", severity_name(alert.finding().severity()),
                     is_imported(alert) ? "; recorded only, its run is read from a log" : ""));
  } else if (worse) {
    note(alert, time_ms, alert.state(), {}, fmt::format("now {}", severity_name(alert.finding().severity())));
  }
  if (acknowledged) {
    note(alert, finding.acknowledged_time, v1::ALERT_STATE_ACKNOWLEDGED, finding.acknowledged_by,
         with_reason("acknowledged", finding.acknowledge_comment));
    for (v1::Page& page : *alert.mutable_pages()) page.set_due(false);
  }
  if (resolved) resolve(alert, finding.last_time, event.reason);
  return {.on = acknowledged, .noted = is_new || worse || acknowledged || resolved};
}

void resolve(v1::Alert& alert, std::int64_t time_ms, const std::string& reason) {
  alert.mutable_finding()->set_open(false);
  alert.set_state(v1::ALERT_STATE_RESOLVED);
  alert.set_resolved_ms(time_ms);
  alert.clear_silence();
  alert.clear_inhibited_by();
  alert.clear_held_until_ms();
  note(alert, time_ms, v1::ALERT_STATE_RESOLVED, {}, with_reason("resolved", reason));
}

void note(v1::Alert& alert, std::int64_t time_ms, v1::AlertState state, std::string who, std::string what) {
  if (alert.trail_size() >= kTrailBeginning + kTrailNewest) {
    alert.mutable_trail()->erase(alert.trail().begin() + kTrailBeginning);
  }
  v1::AlertTransition& entry = *alert.add_trail();
  entry.set_time_ms(time_ms);
  entry.set_state(state);
  entry.set_who(std::move(who));
  entry.set_what(std::move(what));
}

AlertRules rules_for(const BookOptions& options, const v1::Alert& alert) {
  AlertRules out;
  out.repeat_ms = options.repeat.count();
  out.page = !is_imported(alert);
  for (const AlertOverride& each : options.overrides) {
    if (!like(each.runs, alert.run()) || !like(each.rules, alert.finding().rule())) continue;
    out.page = each.page.value_or(out.page);
    out.min_severity = each.min_severity.value_or(out.min_severity);
    if (each.hold) out.hold_ms = each.hold->count();
    if (each.repeat) out.repeat_ms = each.repeat->count();
  }
  return out;
}

std::vector<const v1::Alert*> causes_of(const RunAlerts& alerts) {
  std::vector<const v1::Alert*> out;
  for (const auto& [id, entry] : alerts) {
    const v1::Alert& alert = entry.alert;
    if (alert.state() != v1::ALERT_STATE_RESOLVED && is_cause(alert.finding().rule())) out.push_back(&alert);
  }
  return out;
}

const v1::Alert* explained_by(const std::vector<const v1::Alert*>& causes, const v1::Alert& alert) {
  const auto found = std::find_if(causes.begin(), causes.end(), [&](const v1::Alert* cause) {
    return explains(cause->finding().rule(), alert.finding().rule());
  });
  return found == causes.end() ? nullptr : *found;
}

bool settle_state(v1::Alert& alert, const v1::Silence* silence, const v1::Alert* cause, std::int64_t now_ms) {
  const v1::AlertState before = alert.state();
  const std::string old_silence = alert.silence().id();
  const std::string old_cause = alert.inhibited_by();
  if (alert.held_until_ms() != 0 && alert.held_until_ms() <= now_ms) alert.clear_held_until_ms();
  if (silence != nullptr) {
    *alert.mutable_silence() = *silence;
  } else {
    alert.clear_silence();
  }
  alert.set_inhibited_by(cause == nullptr ? std::string() : cause->id());
  const bool quiet = alert.has_silence() || cause != nullptr;
  const v1::AlertState state = quiet                             ? v1::ALERT_STATE_SILENCED
                               : alert.held_until_ms() != 0      ? v1::ALERT_STATE_PENDING
                               : alert.acknowledged_by().empty() ? v1::ALERT_STATE_FIRING
                                                                 : v1::ALERT_STATE_ACKNOWLEDGED;
  alert.set_state(state);
  const bool silence_changed = old_silence != alert.silence().id();
  const bool cause_changed = old_cause != alert.inhibited_by();
  if (state == before && !silence_changed && !cause_changed) return false;
  if (silence_changed && silence != nullptr) {
    note(alert, now_ms, state, silence->created_by(),
         fmt::format("silenced until {} by {}: {}", rfc3339(silence->ends_ms()), silence->id(), silence->reason()));
  } else if (cause_changed && cause != nullptr) {
    note(alert, now_ms, state, {}, fmt::format("silenced while {} explains it", cause->id()));
  } else if (state == v1::ALERT_STATE_PENDING) {
    note(alert, now_ms, state, {}, fmt::format("held back until {}", rfc3339(alert.held_until_ms())));
  } else if (before == v1::ALERT_STATE_SILENCED && !quiet) {
    note(alert, now_ms, state, {}, "no longer silenced");
  } else if (before == v1::ALERT_STATE_PENDING && !quiet) {
    note(alert, now_ms, state, {}, "no longer held back");
  }
  if (before == v1::ALERT_STATE_SILENCED && state == v1::ALERT_STATE_FIRING) {
    for (v1::Page& page : *alert.mutable_pages()) page.set_due(true);
  }
  return true;
}

}  // namespace scalewatch::alerting

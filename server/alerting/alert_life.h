// One alert's life: what the finding, acknowledgements, silences and other alerts make of it, with the trail of it all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/book_options.h"
#include "server/engine/ports/alert_outbox.h"

namespace scalewatch::alerting {

struct AlertEntry {
  v1::Alert alert;
  std::int64_t changed_ms = 0;        // never goes back: the store keeps the later change
  std::vector<std::int64_t> waiting;  // by sink: since when a page waits to be sent, steady clock; 0 = none does
};
inline bool is_waiting(const AlertEntry& entry) {
  return std::any_of(entry.waiting.begin(), entry.waiting.end(), [](std::int64_t since) { return since != 0; });
}
// The open alerts of one run, by id.
using RunAlerts = std::map<std::string, AlertEntry>;

// Takes over what the event says; the trail, and what people were told, stay.
struct Taken {
  bool on = false;     // somebody has taken it on with it
  bool noted = false;  // the trail's newest entry tells of it
};
Taken take_event(const engine::RunContext& run, const domain::FindingEvent& event, AlertEntry& entry);

// The end of an alert's life, and why; empty: because what it was for is over.
void resolve(v1::Alert& alert, std::int64_t time_ms, const std::string& reason);

// Adds to the trail, which keeps its beginning and what is newest.
void note(v1::Alert& alert, std::int64_t time_ms, v1::AlertState state, std::string who, std::string what);

// What holds for an alert.
struct AlertRules {
  bool page = true;  // false unless an override says otherwise: of a run that was imported (domain::kImportedLabel)
  domain::Severity min_severity = domain::Severity::kNone;
  std::int64_t hold_ms = 0;
  std::int64_t repeat_ms = 0;
};
AlertRules rules_for(const BookOptions& options, const v1::Alert& alert);

// The open alerts that explain others. They live as long as `alerts` keeps them.
std::vector<const v1::Alert*> causes_of(const RunAlerts& alerts);
// The one of them that explains this one; null when none does.
const v1::Alert* explained_by(const std::vector<const v1::Alert*>& causes, const v1::Alert& alert);

// Puts an open alert into the state that it is in by now. silence: that matches it, or null; cause: see explained_by.
// Returns whether the alert changed.
bool settle_state(v1::Alert& alert, const v1::Silence* silence, const v1::Alert* cause, std::int64_t now_ms);

}  // namespace scalewatch::alerting

// What a webhook tells of a notice, as JSON. Version 1; fields are only ever added:
//   version       1
//   key           idempotency key, the same at every try: alert_id + "/" + transition
//   alert_id      the same for all transitions of an alert: deduplicate by it
//   transition    "firing"; "escalated:critical" (or :warning); "repeated:N", still open after the re-page interval or a
//                 silence; "digest:N", for what came beyond the sink's limit of pages; "resolved"; "test", of `alerts test`;
//                 "watchdog", which comes for ever and is of no run (watchdog.h)
//   state         "firing", "acknowledged" or "resolved"
//   title, message  for people: one line, and some lines with links, at most 2 KB
//   run, run_uid  the run's name and the server's id of it
//   labels        {name: value}, the run's labels
//   rule, severity ("info", "warning", "critical"), subject (empty = the run), summary (one sentence)
//   where         {tensor, role, rank, ranks, kind, place, hosts: [{rank, host, gpu}]}: tensor, role, kind and place are null
//                 without blame; rank is null when it is not one; ranks is empty when all are concerned; hosts has at most 4
//   since, last   {segment, attempt, step, time (RFC 3339)}: first and last attempt that the finding covers
//   resolved_at   RFC 3339, or null while open
//   evidence      [{name, value, unit, limit (or null)}]
//   advice        [{id, text, confidence}], most certain first
//   blame         null, or {tensor, role, kind, place, rank_of_origin (or null), ranks, nan, inf, first_bad_micro (or
//                 null: the micro-batch in which it went bad first), attempt, step, tensors_non_finite, fastest_falling,
//                 octaves_fallen, note}
//   acknowledged_by  who is on it, or null
//   grouped       [{alert_id, run, rule, severity, subject, summary}]: other alerts that a page for people tells of, worst
//                 first, at most 20; they get none of their own. grouped_total: how many there are
//   link          address of the run, or null
//   runbook       address of the rule's runbook, or null
// Numbers that JSON lacks are the strings "NaN", "Infinity", "-Infinity".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

nlohmann::json webhook_fields(const Notice& notice, const std::string& public_url);

}  // namespace scalewatch::alerting

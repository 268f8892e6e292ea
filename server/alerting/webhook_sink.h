// POSTs every transition as JSON.
//
// Headers: Idempotency-Key = `key` with bytes that a header can't hold (and '%') as %XX; User-Agent scalewatch/VERSION.
// Body, version 1; fields are only ever added:
//   version       1
//   key           idempotency key, the same at every try: alert_id + "/" + transition
//   alert_id      the same for all transitions of an alert: deduplicate by it
//   transition    "firing", "escalated:critical" (or :warning), "resolved"
//   state         "firing", "acknowledged" or "resolved"
//   run, run_uid  the run's name and the server's id of it
//   labels        {name: value}, the run's labels
//   rule, severity ("info", "warning", "critical"), subject (empty = the run), summary (one sentence)
//   where         {tensor, role, rank, ranks, kind, place}: tensor, role, kind and place are null without blame; rank is null
//                 when it is not one; ranks is empty when all are concerned
//   since, last   {segment, attempt, step, time (RFC 3339)}: first and last attempt that the finding covers
//   resolved_at   RFC 3339, or null while open
//   evidence      [{name, value, unit, limit (or null)}]
//   advice        [{id, text, confidence}], most certain first
//   blame         null, or {tensor, role, kind, place, rank_of_origin (or null), ranks, nan, inf, tensors_non_finite,
//                 fastest_falling, octaves_fallen, note}
//   link          address of the run, or null
// Numbers that JSON lacks are the strings "NaN", "Infinity", "-Infinity".
#pragma once

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

class WebhookSink : public Sink {
 public:
  using Sink::Sink;
  [[nodiscard]] HttpRequest request(const Notice& notice, std::int64_t now_ms) const override;
};

}  // namespace scalewatch::alerting

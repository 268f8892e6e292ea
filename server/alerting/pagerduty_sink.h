// PagerDuty's Events API v2: an incident an alert, opened by "trigger", closed by "resolve". Who acknowledges the alert here is
// told there by "acknowledge", once.
//
// dedup_key is the alert's id (its SHA-256 where it has more than 255 bytes), so repeated triggers never open a second
// incident. `key` is the routing key of the integration.
// Source: https://developer.pagerduty.com/docs/events-api-v2/trigger-events/ (required: routing_key, event_action, payload with
// summary up to 1024 characters, source, severity; dedup_key up to 255).
#pragma once

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

class PagerDutySink : public Sink {
 public:
  static constexpr std::string_view kUrl = "https://events.pagerduty.com/v2/enqueue";

  using Sink::Sink;
  [[nodiscard]] HttpRequest request(const Notice& notice, std::int64_t now_ms) const override;
};

}  // namespace scalewatch::alerting

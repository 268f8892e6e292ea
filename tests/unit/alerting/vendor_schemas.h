// What receivers document that they take, field by field, so that tests can hold payloads against it. What a page does not say
// is not checked. Each returns what is wrong first, or nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace scalewatch::alerting {

// "Send an Event to PagerDuty" (Events API v2, developer.pagerduty.com/docs/events-api-v2/trigger-events): routing_key of 32
// characters; event_action trigger, acknowledge or resolve; dedup_key of up to 255 characters, needed for the latter two;
// payload of a trigger with summary (up to 1024 characters), source and severity (critical, warning, error, info), and
// timestamp (ISO 8601), component, group, class (texts), custom_details (object); links with href and text; client, client_url;
// 512 KB in all.
std::string pagerduty_fault(const nlohmann::json& event);

// "Alertmanager API" (api/v2/openapi.yaml: postableAlerts): an array; each with labels (texts by name, one at least),
// annotations (texts by name), startsAt and endsAt (RFC 3339), generatorURL (URI). Label names as Prometheus' data model has
// them
// ([a-zA-Z_][a-zA-Z0-9_]*), alertname among them; no empty values; the end is not before the start.
std::string alertmanager_fault(const nlohmann::json& alerts);

// "Reference: Secondary message attachments" (api.slack.com/reference/messaging/attachments) and "Formatting text for app
// surfaces": text; attachments (at most 100) with fallback (plain text), color (good, warning, danger or #rrggbb), title,
// title_link (URL), text, ts (whole seconds); & < > only as &amp; &lt; &gt;. Mattermost and Discord's /slack take the same.
std::string slack_fault(const nlohmann::json& message);

// RFC 5322 (2.1.1, 2.3, 3.6), RFC 2045 and 2047: lines end in CR LF and have at most 998 bytes; ASCII in the head; one each of
// From, To, Subject, Date, Message-ID and MIME-Version; a base64 body in lines of at most 76.
std::string email_fault(const std::string& message);

// The JSON of server/alerting/webhook_fields.h, version 1: what webhooks and commands get.
std::string webhook_fault(const nlohmann::json& body);

}  // namespace scalewatch::alerting

#include "server/alerting/pagerduty_sink.h"

#include <nlohmann/json.hpp>

#include "server/alerting/alert_text.h"
#include "server/alerting/message.h"
#include "server/alerting/signature.h"
#include "server/alerting/webhook_fields.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kMaxKey = 255;
constexpr std::size_t kMaxSummary = 1024;

// All texts in it made readable; its keys stay.
nlohmann::json readable_texts(nlohmann::json json) {
  if (json.is_string()) return readable(json.get_ref<const std::string&>());
  if (json.is_structured()) {
    for (auto& value : json) value = readable_texts(std::move(value));
  }
  return json;
}

}  // namespace

HttpRequest PagerDutySink::request(const Notice& notice, std::int64_t) const {
  const v1::Alert& alert = notice.alert;
  const Message message = message_of(notice, config().public_url);
  const std::string_view action = notice.transition == kResolved       ? "resolve"
                                  : notice.transition == kAcknowledged ? "acknowledge"
                                                                       : "trigger";
  nlohmann::json event = {{"routing_key", config().key.read().value_or("")},
                          {"event_action", action},
                          {"dedup_key", alert.id().size() > kMaxKey ? sha256(alert.id()) : alert.id()}};
  if (action == "trigger") {
    std::string source = alert.places().empty() ? std::string() : alert.places(0).host();
    event["client"] = "Scalewatch";
    if (!message.link.empty()) event["client_url"] = message.link;
    event["payload"] = readable_texts({{"summary", cut(message.title + ": " + alert.finding().summary(), kMaxSummary)},
                                       {"source", source.empty() ? alert.run() : source},
                                       {"severity", severity_name(alert.finding().severity())},
                                       {"timestamp", rfc3339(alert.fired_ms())},
                                       {"component", alert.finding().blame().tensor()},
                                       {"group", alert.run()},
                                       {"class", alert.finding().rule()},
                                       {"custom_details", webhook_fields(notice, config().public_url)}});
    nlohmann::json links = nlohmann::json::array();
    if (!message.link.empty()) links.push_back({{"href", message.link}, {"text", "Run"}});
    if (!message.runbook.empty()) links.push_back({{"href", message.runbook}, {"text", "Runbook"}});
    event["links"] = links;
  }
  return post(config().url.empty() && !config().url_secret.set() ? std::string(kUrl) : url(), dump(event));
}

}  // namespace scalewatch::alerting

#include "server/alerting/sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "server/alerting/alert_text.h"
#include "server/alerting/alertmanager_sink.h"
#include "server/alerting/command_sink.h"
#include "server/alerting/email_sink.h"
#include "server/alerting/pagerduty_sink.h"
#include "server/alerting/slack_sink.h"
#include "server/alerting/webhook_sink.h"

namespace scalewatch::alerting {

namespace {

template <class T>
std::unique_ptr<Sink> make(SinkConfig config) {
  return std::make_unique<T>(std::move(config));
}

using Use = SinkType;
constexpr unsigned kHttp = unsigned{Use::kUrl} | Use::kHeaders;

// One line a type.
constexpr std::array kTypes{
    SinkType{"webhook", 0, kHttp | Use::kKey | Use::kBody | Use::kWatches, false, false, 0, &make<WebhookSink>},
    SinkType{"alertmanager", AlertmanagerSink::kDefaultReminderMs, kHttp | Use::kWatches, true, false, 0,
             &make<AlertmanagerSink>},
    SinkType{"slack", 0, kHttp, false, true, 10, &make<SlackSink>},
    SinkType{"pagerduty", 0, kHttp | Use::kUrlMayLack | Use::kKey | Use::kNeedsKey | Use::kAcknowledges, false, false, 10,
             &make<PagerDutySink>},
    SinkType{"email", 0, Use::kUrl | Use::kKey | Use::kMail, false, true, 10, &make<EmailSink>},
    SinkType{"command", 0, unsigned{Use::kCommand} | Use::kWatches, false, true, 10, &make<CommandSink>},
};

}  // namespace

Verdict Sink::classify(const HttpResponse& response) const {
  const int status = response.status;
  if (status >= 200 && status < 300) return Verdict::kDelivered;
  if (status == 0 || status == 408 || status == 429 || status >= 500) return Verdict::kRetry;
  return Verdict::kRejected;
}

HttpRequest Sink::reminder(std::span<const v1::Alert>, std::int64_t) const {
  throw std::logic_error("this sink sends no reminders");
}

std::string Sink::url() const {
  return config_.url_secret.set() ? config_.url_secret.read().value_or("") : config_.url;
}

void Sink::mark_secrets(HttpRequest& request) const {
  request.destinations = config_.destinations;
  // Passwords and tokens also stand in plain addresses (many receivers know their senders by a path) and headers.
  request.secret_url = config_.url_secret.set() || config_.url.find_first_of("@?") != std::string::npos;
  request.has_secrets = request.secret_url || (!config_.url.empty() && url_has_more(config_.url)) || config_.key.set() ||
                        !config_.headers.empty() || !config_.secret_headers.empty();
}

HttpRequest Sink::post(std::string url, std::string json) const {
  HttpRequest request{.url = std::move(url), .headers = {}, .body = std::move(json), .timeout_ms = config_.timeout_ms};
  mark_secrets(request);
  request.headers.emplace_back("Content-Type: application/json");
  request.headers.emplace_back("User-Agent: scalewatch/" SCALEWATCH_VERSION);
  for (const auto& [name, value] : config_.headers) {
    request.headers.push_back(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  }
  for (const auto& [name, secret] : config_.secret_headers) {
    // One that can't be read, or would break the header, is left out: the receiver refuses, and that is told.
    if (const auto value = secret.read(); value && !has_control(*value)) {
      request.headers.push_back(fmt::format("{}: {}", name, *value));
    }
  }
  return request;
}

std::span<const SinkType> sink_types() {
  return kTypes;
}

const SinkType* find_sink_type(std::string_view name) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), [&](const SinkType& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

std::unique_ptr<Sink> make_sink(SinkConfig config) {
  const SinkType* type = find_sink_type(config.type);
  if (type == nullptr) throw std::invalid_argument("unknown sink type '" + config.type + "'");
  return type->make(std::move(config));
}

}  // namespace scalewatch::alerting

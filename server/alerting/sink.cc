#include "server/alerting/sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "server/alerting/alertmanager_sink.h"
#include "server/alerting/webhook_sink.h"

namespace scalewatch::alerting {

namespace {

template <class T>
std::unique_ptr<Sink> make(SinkConfig config) {
  return std::make_unique<T>(std::move(config));
}

// One line a type.
constexpr std::array kTypes{
    SinkType{"webhook", 0, false, &make<WebhookSink>},
    SinkType{"alertmanager", AlertmanagerSink::kDefaultReminderMs, true, &make<AlertmanagerSink>},
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

HttpRequest Sink::post(std::string url, std::string json) const {
  HttpRequest request{.url = std::move(url), .headers = {}, .body = std::move(json), .timeout_ms = config_.timeout_ms};
  request.headers.emplace_back("Content-Type: application/json");
  request.headers.emplace_back("User-Agent: scalewatch/" SCALEWATCH_VERSION);
  for (const auto& [name, value] : config_.headers) {
    request.headers.push_back(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
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

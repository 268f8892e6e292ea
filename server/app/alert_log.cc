#include "server/app/alert_log.h"

#include <chrono>
#include <stop_token>
#include <string>

#include "server/alerting/alert_text.h"
#include "server/app/log.h"

namespace scalewatch::app {
namespace {

constexpr std::size_t kWaiting = 1024;  // changes; when more come at once, the oldest are only counted

const char* message_for(const v1::Alert& alert) {
  switch (alert.state()) {
    case v1::ALERT_STATE_ACKNOWLEDGED:
      return "alert is acknowledged";
    case v1::ALERT_STATE_RESOLVED:
      return "alert is resolved";
    case v1::ALERT_STATE_PENDING:
      return "alert is pending";
    case v1::ALERT_STATE_SILENCED:
      return "alert is silenced";
    default:
      return "alert is firing";
  }
}

// While nobody is on it, a critical one is an error.
log::Level level_of(const v1::Alert& alert) {
  if (alert.state() != v1::ALERT_STATE_FIRING) return log::Level::kInfo;
  switch (alert.finding().severity()) {
    case v1::SEVERITY_CRITICAL:
      return log::Level::kError;
    case v1::SEVERITY_WARNING:
      return log::Level::kWarning;
    default:
      return log::Level::kInfo;
  }
}

void write(const v1::Alert& alert) {
  const v1::Finding& finding = alert.finding();
  log::write(level_of(alert), message_for(alert),
             {{"severity", std::string(alerting::severity_name(finding.severity()))},
              {"rule", finding.rule()},
              {"run", alert.run()},
              {"subject", finding.subject()},
              {"attempt", std::to_string(finding.first_attempt())},
              {"summary", finding.summary()},
              {"id", alert.id()}});
}

void follow(const std::stop_token& stop, engine::Feed<v1::Alert>::Subscription& subscription) {
  while (!stop.stop_requested()) {
    const auto batch = subscription.wait(std::chrono::milliseconds(500));
    if (batch.dropped > 0)
      log::warning("changes of alerts came too fast for this log", {{"left_out", std::to_string(batch.dropped)}});
    for (const auto& alert : batch.events) write(*alert);
    if (batch.closed) return;
  }
}

}  // namespace

AlertLog::AlertLog(engine::Feed<v1::Alert>& feed)
    : subscription_(feed.subscribe(kWaiting)), thread_([this](const std::stop_token& stop) { follow(stop, *subscription_); }) {}

}  // namespace scalewatch::app

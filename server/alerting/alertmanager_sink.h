// Alertmanager's v2 API: POST <url>/api/v2/alerts.
//
// Identity is the label set: alertname (= rule), run, run_uid, severity, subject, and the run's labels. An escalation changes
// `severity` and with it the identity, so the alert of the severity below is ended in the same request: findings rise one
// severity at a time. Every alert sent carries an endsAt in the future and is sent again before that: when this server is gone,
// Alertmanager ends its alerts by itself, whatever its resolve_timeout.
#pragma once

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

class AlertmanagerSink : public Sink {
 public:
  static constexpr std::uint32_t kDefaultReminderMs = 60'000;

  using Sink::Sink;
  [[nodiscard]] HttpRequest request(const Notice& notice, std::int64_t now_ms) const override;
  // Two episodes of one rule and subject share an identity there: the resolve of the first must precede the second's firing.
  [[nodiscard]] std::string order(const v1::Alert& alert) const override;
  [[nodiscard]] std::uint32_t reminder_ms() const override { return config().reminder_ms.value_or(kDefaultReminderMs); }
  [[nodiscard]] HttpRequest reminder(std::span<const v1::Alert> alerts, std::int64_t now_ms) const override;

 private:
  [[nodiscard]] HttpRequest post_alerts(std::string json) const;
  [[nodiscard]] std::int64_t ends_if_forgotten(std::int64_t now_ms) const;
};

}  // namespace scalewatch::alerting

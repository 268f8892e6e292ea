#include "server/alerting/watchdog.h"

namespace scalewatch::alerting {

v1::Alert watchdog_alert(std::int64_t started_ms, std::int64_t now_ms, const std::string& runbook) {
  v1::Alert alert;
  alert.set_id("scalewatch/Watchdog");
  alert.set_state(v1::ALERT_STATE_FIRING);
  alert.set_fired_ms(started_ms);
  alert.set_runbook(runbook);
  v1::Finding& finding = *alert.mutable_finding();
  finding.set_id(alert.id());
  finding.set_rule("Watchdog");
  finding.set_severity(v1::SEVERITY_INFO);
  finding.set_summary("Scalewatch is alive. This alert always fires; act when it stops.");
  finding.set_first_time_ms(started_ms);
  finding.set_last_time_ms(now_ms);
  return alert;
}

}  // namespace scalewatch::alerting

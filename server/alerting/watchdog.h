// The Watchdog: an alert that always fires, so that whoever waits for it notices when this server, or the way from it, is gone
// (a dead man's switch; the name is the one that Prometheus users know).
//
// Sinks ask for it (SinkConfig::watchdog_ms). Each time it is sent anew and kept nowhere: an Alertmanager ends it by itself
// when it stops to come, other receivers must count the time. It stops while the server can't read its own store.
#pragma once

#include <cstdint>
#include <string>

#include "scalewatch/v1/alerts.pb.h"

namespace scalewatch::alerting {

// started_ms: since when it fires, server's clock.
v1::Alert watchdog_alert(std::int64_t started_ms, std::int64_t now_ms, const std::string& runbook);

}  // namespace scalewatch::alerting

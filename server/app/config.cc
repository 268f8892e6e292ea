#include "server/app/config.h"

#include <fnmatch.h>

#include "server/app/settings.h"

namespace scalewatch::app {

Config::Config() {
  engine.limits = engine::default_limits();
}

domain::Thresholds thresholds_of(const Config& config, const std::string& run) {
  domain::Thresholds thresholds = config.engine.thresholds;
  std::vector<Setting> all;
  add_rule_settings(thresholds, all);
  for (const RunRules& rules : config.rules_by_run) {
    if (fnmatch(rules.runs.c_str(), run.c_str(), 0) != 0) continue;
    for (const auto& [key, value] : rules.values) apply(all, "rules." + key, value);
  }
  return thresholds;
}

void validate(const Config& config) {
  for (const auto& [key, address] :
       {std::pair("listen.grpc", &config.grpc_address), std::pair("listen.http", &config.http_address)}) {
    if (address->loopback() || config.insecure_listen) continue;
    throw ConfigError(std::string(key) + ": " + address->text() +
                      " can be reached from other machines, and connections are neither encrypted nor authenticated; listen on "
                      "127.0.0.1, or accept that with --insecure-listen");
  }
  if (config.data_dir.empty()) throw ConfigError("data_dir: must not be empty");
  const std::vector<std::string> faults = alerting::validate(config.sinks);
  if (!faults.empty()) throw ConfigError("alerting.sinks: " + faults.front());
  const std::vector<std::string> refused = alerting::destination_faults(config.sinks);
  if (!refused.empty()) throw ConfigError("alerting.sinks: " + refused.front());
}

void bind_sinks(Config& config) {
  alerting::Destinations destinations;
  destinations.hosts = alerting::Destinations::parse(config.alerts.allowed_hosts);
  destinations.loopback = config.grpc_address.loopback() && config.http_address.loopback();
  for (alerting::SinkConfig& sink : config.sinks) {
    sink.public_url = config.public_url;
    sink.watchdog_runbook = alerting::runbook_of(config.alerts, "Watchdog");
    sink.destinations = destinations;
  }
}

}  // namespace scalewatch::app

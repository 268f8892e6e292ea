#include "server/app/config.h"

#include <fnmatch.h>

#include <fstream>

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
    if (address->loopback()) continue;
    // Two dangers, and each is accepted on its own.
    const std::string reach = std::string(key) + ": " + address->text() + " can be reached from other machines, and ";
    if (!config.tls.on() && !config.insecure_listen) {
      throw ConfigError(reach +
                        "connections are not encrypted: set tls.certificate and tls.key, listen on 127.0.0.1, or accept that "
                        "with --insecure-listen");
    }
    if (config.gate.tokens_file.empty() && config.tls.client_ca.empty() && !config.anonymous_listen) {
      throw ConfigError(reach +
                        "whoever does may do everything: set auth.tokens_file (`scalewatch admin token create` makes it) or "
                        "tls.client_ca, listen on 127.0.0.1, or accept that with --anonymous-listen");
    }
  }
  if (config.tls.certificate.empty() != config.tls.key.empty()) {
    throw ConfigError("tls.certificate and tls.key go together: one of them is empty");
  }
  if (!config.tls.client_ca.empty() && !config.tls.on()) {
    throw ConfigError("tls.client_ca: needs tls.certificate and tls.key too");
  }
  if (config.tls.on()) {
    try {
      auth::make_server_context(config.tls);
    } catch (const auth::TlsError& error) {
      throw ConfigError(error.what());
    }
  }
  if (config.fleet.on()) {
    try {
      fleet::parse_instances(config.fleet.instances, config.fleet.self);
    } catch (const std::invalid_argument& error) {
      throw ConfigError(std::string("fleet.instances: ") + error.what());
    }
    if (!config.gate.tokens_file.empty() && config.fleet.token_file.empty()) {
      throw ConfigError(
          "fleet.token_file: is empty, and auth.tokens_file is set: the other servers would refuse this one; `scalewatch admin "
          "token create --scope read --scope operate` makes a token");
    }
    for (const auto& [key, path] :
         {std::pair("fleet.token_file", &config.fleet.token_file), std::pair("fleet.ca", &config.fleet.ca)}) {
      if (!path->empty() && std::ifstream(*path).peek() == std::ifstream::traits_type::eof()) {
        throw ConfigError(std::string(key) + ": " + *path + " cannot be read, or is empty");
      }
    }
  } else if (!config.fleet.self.empty()) {
    throw ConfigError("fleet.self: is set, and fleet.instances is empty");
  }
  if (const std::string fault = clickhouse::fault_of(config.clickhouse); !fault.empty()) throw ConfigError(fault);
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

// What the operator says about where alerts go. Plain values that app fills from YAML.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/alerting/destinations.h"
#include "server/alerting/secret.h"
#include "server/domain/finding.h"

namespace scalewatch::alerting {

inline constexpr std::size_t kMaxSinks = 32;

struct SinkConfig {
  std::string name;   // unique; 1 to 64 of [A-Za-z0-9_.-]. Rows in the outbox are kept by it: renaming a sink orphans them
  std::string type;   // see sink_types()
  std::string url;    // http or https. alertmanager: its base address, without /api/v2/alerts. email: smtp or smtps
  Secret url_secret;  // in place of url, where the address is the secret (Slack)
  domain::Severity min_severity = domain::Severity::kWarning;  // alerts below it are not sent
  std::uint32_t timeout_ms = 10'000;  // of a whole request, 100 to 60,000; connecting has at most 3,000 of it
  // Open alerts are sent again this often; only types that need it (alertmanager: default 60,000). 1,000 to 3,600,000.
  std::optional<std::uint32_t> reminder_ms;
  std::map<std::string, std::string> headers;    // sent with every request
  std::map<std::string, Secret> secret_headers;  // likewise, e.g. Authorization
  Secret key;                                    // webhook: signs bodies. pagerduty: the routing key. email: the password
  std::string body;                              // webhook: a template in place of its JSON (body_template.h)
  std::vector<std::string> command;              // command: the program's path, then its arguments
  std::string from;                              // email: sender's address
  std::vector<std::string> to;                   // email: addresses, at most 50
  std::string user;                              // email: who logs in; empty: nobody
  bool tls = true;                               // email: smtp:// must be upgraded by STARTTLS
  std::string public_url;                        // where people reach this server's HTTP address, for links; empty: no links
  std::vector<std::string> match;                // only alerts that these matchers take (matchers.h); empty: all
  // True: pages for people. Alerts of a run that come together are one page, open ones are paged again now and then. False: a
  // program reads it, and gets every alert on its own. Absent: as the type has it.
  std::optional<bool> group;
  std::optional<std::uint32_t> pages_per_minute;  // more come as one digest a minute later; 0 = no limit. Absent: 10 for people
  // The Watchdog (watchdog.h) is sent this often, 10,000 to 3,600,000; absent: never.
  std::optional<std::uint32_t> watchdog_ms;
  std::string watchdog_runbook;  // address of its runbook page; empty: none
  Destinations destinations;     // where it may send to; the same for all sinks
};

// "info", "warning", "critical"; absent for anything else.
std::optional<domain::Severity> parse_severity(std::string_view text);
std::string_view severity_name(domain::Severity severity);

// Which sinks would send to hosts that their `destinations` do not allow, one sentence each; beside validate(), for they are
// known only when all of the configuration is.
std::vector<std::string> destination_faults(const std::vector<SinkConfig>& sinks);

// What is wrong, one sentence a fault that names the sink; empty when all is well.
std::vector<std::string> validate(const std::vector<SinkConfig>& sinks);

}  // namespace scalewatch::alerting

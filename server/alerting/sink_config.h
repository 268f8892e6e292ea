// What the operator says about where alerts go. Plain values that app fills from YAML.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/finding.h"

namespace scalewatch::alerting {

inline constexpr std::size_t kMaxSinks = 32;

struct SinkConfig {
  std::string name;  // unique; 1 to 64 of [A-Za-z0-9_.-]. Rows in the outbox are kept by it: renaming a sink orphans them
  std::string type;  // see sink_types()
  std::string url;   // http or https. alertmanager: its base address, without /api/v2/alerts
  domain::Severity min_severity = domain::Severity::kWarning;  // alerts below it are not sent
  std::uint32_t timeout_ms = 10'000;  // of a whole request, 100 to 60,000; connecting has at most 3,000 of it
  // Open alerts are sent again this often; only types that need it (alertmanager: default 60,000). 1,000 to 3,600,000.
  std::optional<std::uint32_t> reminder_ms;
  std::map<std::string, std::string> headers;  // sent with every request, e.g. Authorization
  std::string public_url;                      // where people reach this server's HTTP address, for links; empty: no links
};

// "info", "warning", "critical"; absent for anything else.
std::optional<domain::Severity> parse_severity(std::string_view text);
std::string_view severity_name(domain::Severity severity);

// What is wrong, one sentence a fault that names the sink; empty when all is well.
std::vector<std::string> validate(const std::vector<SinkConfig>& sinks);

}  // namespace scalewatch::alerting

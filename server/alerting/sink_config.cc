#include "server/alerting/sink_config.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "server/alerting/http_sender.h"
#include "server/alerting/sink.h"

namespace scalewatch::alerting {

namespace {

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; });
}

// A token as HTTP defines it.
bool valid_header_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return is_alnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool valid_header_value(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

void check(const SinkConfig& sink, std::vector<std::string>& faults) {
  const auto fault = [&](const std::string& what) { faults.push_back(fmt::format("sink '{}': {}", sink.name, what)); };
  if (!valid_name(sink.name)) fault("name must be 1 to 64 of letters, digits, '_', '.', '-'");
  const SinkType* type = find_sink_type(sink.type);
  if (type == nullptr) {
    std::vector<std::string_view> known;
    for (const SinkType& each : sink_types()) known.push_back(each.name);
    fault(fmt::format("unknown type '{}'; known types: {}", sink.type, fmt::join(known, ", ")));
  }
  if (const std::string why = url_fault(sink.url); !why.empty()) {
    fault(fmt::format("url {}; expected something like https://host:port/path", why));
  }
  if (!sink.public_url.empty()) {
    if (const std::string why = url_fault(sink.public_url); !why.empty()) fault(fmt::format("public_url {}", why));
  }
  if (type != nullptr && type->base_url && sink.url.find_first_of("?#") != std::string::npos) {
    fault(fmt::format("url must be the base address of {}, without '?' or '#'", sink.type));
  }
  if (sink.min_severity == domain::Severity::kNone) fault("min_severity must be info, warning or critical");
  if (sink.timeout_ms < 100 || sink.timeout_ms > 60'000) fault("timeout_ms must be 100 to 60000");
  if (sink.reminder_ms) {
    if (type != nullptr && type->reminder_ms == 0) fault(fmt::format("reminder_ms: type {} sends no reminders", sink.type));
    if (*sink.reminder_ms < 1000 || *sink.reminder_ms > 3'600'000) fault("reminder_ms must be 1000 to 3600000");
  }
  for (const auto& [name, value] : sink.headers) {
    if (!valid_header_name(name)) fault(fmt::format("header name '{}' is not valid", name));
    // The value may be a secret: it is not repeated.
    if (!valid_header_value(value)) fault(fmt::format("the value of header '{}' has a control character", name));
  }
}

}  // namespace

std::optional<domain::Severity> parse_severity(std::string_view text) {
  for (const auto severity : {domain::Severity::kInfo, domain::Severity::kWarning, domain::Severity::kCritical}) {
    if (text == severity_name(severity)) return severity;
  }
  return std::nullopt;
}

std::string_view severity_name(domain::Severity severity) {
  switch (severity) {
    case domain::Severity::kInfo:
      return "info";
    case domain::Severity::kWarning:
      return "warning";
    case domain::Severity::kCritical:
      return "critical";
    case domain::Severity::kNone:
      break;
  }
  return "none";
}

std::vector<std::string> validate(const std::vector<SinkConfig>& sinks) {
  std::vector<std::string> faults;
  if (sinks.size() > kMaxSinks) faults.push_back(fmt::format("{} sinks; at most {} are allowed", sinks.size(), kMaxSinks));
  std::set<std::string_view> names;
  for (const SinkConfig& sink : sinks) {
    if (!names.insert(sink.name).second) faults.push_back(fmt::format("sink '{}': the name is used twice", sink.name));
    check(sink, faults);
  }
  return faults;
}

}  // namespace scalewatch::alerting

#include "server/alerting/sink_config.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>

#include "server/alerting/body_template.h"
#include "server/alerting/http_sender.h"
#include "server/alerting/matchers.h"
#include "server/alerting/pagerduty_sink.h"
#include "server/alerting/sink.h"
#include "server/alerting/webhook_fields.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kMaxUrl = 4096;

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

// An address that can stand in a mail's head and in SMTP as it is.
bool valid_mail_address(std::string_view text) {
  const auto at = text.find('@');
  return at != std::string_view::npos && at > 0 && at + 1 < text.size() && text.size() <= 254 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; }) &&
         text.find_first_of("<>()[],;:\\\"") == std::string_view::npos && text.find('@', at + 1) == std::string_view::npos;
}

void check_mail(const SinkConfig& sink, const std::function<void(const std::string&)>& fault) {
  constexpr std::size_t kMaxTo = 50;
  if (!valid_mail_address(sink.from)) fault("from must be a mail address, such as scalewatch@example.org");
  if (sink.to.empty() || sink.to.size() > kMaxTo) fault(fmt::format("to must be 1 to {} mail addresses", kMaxTo));
  for (const std::string& to : sink.to) {
    if (!valid_mail_address(to)) fault(fmt::format("to: '{}' is not a mail address", to));
  }
  if (!sink.user.empty() && !sink.key.set()) fault("user: key_file or key_env must say where the password is");
}

void check_url(const SinkConfig& sink, unsigned uses, const std::function<void(const std::string&)>& fault) {
  std::string url = sink.url;
  if (sink.url_secret.set()) {
    if (!sink.url.empty()) fault("url and url_file or url_env are given: choose one");
    if (const std::string why = sink.url_secret.fault(); !why.empty()) return fault("url: " + why);
    url = sink.url_secret.read().value_or("");
  }
  if (url.empty() && (uses & SinkType::kUrlMayLack) != 0) return;
  if (url.size() > kMaxUrl) return fault(fmt::format("url has more than {} bytes", kMaxUrl));
  const bool mail = (uses & SinkType::kMail) != 0;
  if (const std::string why = mail ? mail_url_fault(url) : url_fault(url); !why.empty()) {
    return fault(fmt::format("url {}; expected something like {}", why, mail ? "smtp://host:587" : "https://host:port/path"));
  }
}

// What types have in different ways.
void check_uses(const SinkConfig& sink, unsigned uses, std::vector<std::string>& faults) {
  const auto fault = [&](const std::string& what) { faults.push_back(fmt::format("sink '{}': {}", sink.name, what)); };
  const auto refuse = [&](unsigned use, bool given, const char* key) {
    if ((uses & use) == 0 && given) fault(fmt::format("{}: type {} has no use for it", key, sink.type));
  };
  refuse(SinkType::kUrl, !sink.url.empty() || sink.url_secret.set(), "url");
  refuse(SinkType::kKey, sink.key.set(), "key_file, key_env");
  refuse(SinkType::kMail, !sink.from.empty() || !sink.to.empty() || !sink.user.empty() || !sink.tls, "from, to, user, tls");
  refuse(SinkType::kCommand, !sink.command.empty(), "command");
  refuse(SinkType::kBody, !sink.body.empty(), "body");
  refuse(SinkType::kHeaders, !sink.headers.empty() || !sink.secret_headers.empty(), "headers");
  if ((uses & SinkType::kUrl) != 0) check_url(sink, uses, fault);
  if ((uses & SinkType::kNeedsKey) != 0 && !sink.key.set()) fault("key_file or key_env must say where its key is");
  if (sink.key.set()) {
    if (const std::string why = sink.key.fault(); !why.empty()) fault("key: " + why);
  }
  if ((uses & SinkType::kMail) != 0) check_mail(sink, fault);
  if ((uses & SinkType::kCommand) != 0 && (sink.command.empty() || !sink.command.front().starts_with('/'))) {
    fault("command must be a list: the program's whole path, then its arguments");
  }
  if (!sink.body.empty()) {
    v1::Alert alert;
    const std::string why = template_fault(sink.body, webhook_fields({alert, kTest, ""}, ""));
    if (!why.empty()) fault("body " + why);
  }
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
  if (type != nullptr) check_uses(sink, type->uses, faults);
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
  if (sink.watchdog_ms) {
    if (type != nullptr && (type->uses & SinkType::kWatches) == 0) {
      fault(fmt::format(
          "watchdog: people read {}, and nobody notices when a message stops to come; expected alertmanager, webhook "
          "or command",
          sink.type));
    }
    if (*sink.watchdog_ms < 10'000 || *sink.watchdog_ms > 3'600'000) fault("watchdog must be 10 s to 1 h");
  }
  for (const std::string& text : sink.match) {
    try {
      Matcher::parse(text);
    } catch (const std::invalid_argument& error) {
      fault(fmt::format("match: {}", error.what()));
    }
  }
  for (const auto& [name, secret] : sink.secret_headers) {
    if (!valid_header_name(name)) fault(fmt::format("header name '{}' is not valid", name));
    if (const std::string why = secret.fault(); !why.empty()) fault(fmt::format("header {}: {}", name, why));
  }
  for (const auto& [name, value] : sink.headers) {
    if (!valid_header_name(name)) fault(fmt::format("header name '{}' is not valid", name));
    // The value may be a secret: it is not repeated.
    if (!valid_header_value(value)) fault(fmt::format("the value of header '{}' has a control character", name));
  }
}

// The address that the sink has now; empty when it has none.
std::string address_of(const SinkConfig& sink) {
  return sink.url_secret.set() ? sink.url_secret.read().value_or("") : sink.url;
}

}  // namespace

std::vector<std::string> destination_faults(const std::vector<SinkConfig>& sinks) {
  std::vector<std::string> faults;
  for (const SinkConfig& sink : sinks) {
    std::string url = address_of(sink);
    if (url.empty() && sink.type == "pagerduty") url = PagerDutySink::kUrl;
    if (url.empty()) continue;
    const std::string why = sink.destinations.refusal(url_host(url));
    if (!why.empty()) faults.push_back(fmt::format("sink '{}': url: {}", sink.name, why));
  }
  return faults;
}

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

#include <charconv>
#include <optional>
#include <system_error>

#include "server/app/settings.h"

namespace scalewatch::app {

std::vector<Setting> sink_settings(alerting::SinkConfig& sink) {
  std::vector<Setting> all;
  all.push_back(text("name", sink.name, "what the sink is called in metrics and in the history"));
  all.push_back(text("type", sink.type, "webhook, alertmanager, slack, pagerduty, email or command"));
  // Taken as it is, and checked with the sink as a whole: an error about a value quotes it, and this one may be a secret.
  all.push_back({"url", "an address",
                 "where alerts are sent; of an Alertmanager its base address; of email smtp:// or smtps://",
                 [&sink](const std::string& value) {
                   sink.url = value;
                   return true;
                 },
                 [&sink] { return sink.url; }});
  all.push_back(text("url_file", sink.url_secret.file, "a file that holds the url, where that is a secret"));
  all.push_back(text("url_env", sink.url_secret.env, "or an environment variable that does"));
  all.push_back(text("key_file", sink.key.file, "a file with what signs (webhook), routes (pagerduty), or logs in (email)"));
  all.push_back(text("key_env", sink.key.env, "or an environment variable with it"));
  all.push_back({"min_severity", "one of info, warning, critical", "alerts below it are not sent",
                 [&sink](const std::string& value) {
                   const auto severity = alerting::parse_severity(value);
                   if (severity) sink.min_severity = *severity;
                   return severity.has_value();
                 },
                 [&sink] { return std::string(alerting::severity_name(sink.min_severity)); }});
  all.push_back({"timeout", "a duration from 100ms to 1min", "of one request",
                 [&sink](const std::string& value) {
                   const auto parsed = parse_duration(value);
                   if (!parsed || *parsed < 100 || *parsed > 60'000) return false;
                   sink.timeout_ms = static_cast<std::uint32_t>(*parsed);
                   return true;
                 },
                 [&sink] { return format_duration(sink.timeout_ms); }});
  all.push_back({"reminder", "a duration from 1s to 1h", "open alerts are sent again this often (alertmanager only)",
                 [&sink](const std::string& value) {
                   const auto parsed = parse_duration(value);
                   if (!parsed || *parsed < 1000 || *parsed > 3'600'000) return false;
                   sink.reminder_ms = static_cast<std::uint32_t>(*parsed);
                   return true;
                 },
                 [&sink] { return sink.reminder_ms ? format_duration(*sink.reminder_ms) : std::string(); }});
  all.push_back({"watchdog", "a duration from 10s to 1h",
                 "an alert that always fires is sent this often, so that its absence is noticed (not for people)",
                 [&sink](const std::string& value) {
                   const auto parsed = parse_duration(value);
                   if (!parsed || *parsed < 10'000 || *parsed > 3'600'000) return false;
                   sink.watchdog_ms = static_cast<std::uint32_t>(*parsed);
                   return true;
                 },
                 [&sink] { return sink.watchdog_ms ? format_duration(*sink.watchdog_ms) : std::string(); }});
  all.push_back({"group", "true or false",
                 "alerts of a run that come together are one page; false: each on its own, for programs",
                 [&sink](const std::string& value) {
                   if (value != "true" && value != "false") return false;
                   sink.group = value == "true";
                   return true;
                 },
                 [&sink] { return sink.group ? std::string(*sink.group ? "true" : "false") : std::string(); }});
  all.push_back({"pages_per_minute", "a whole number from 0 to 10000", "more come as one digest; 0 = no limit",
                 [&sink](const std::string& value) {
                   std::uint32_t parsed = 0;
                   const char* const end = value.data() + value.size();
                   const auto [at, error] = std::from_chars(value.data(), end, parsed);
                   if (error != std::errc() || at != end || parsed > 10'000) return false;
                   sink.pages_per_minute = parsed;
                   return true;
                 },
                 [&sink] { return sink.pages_per_minute ? std::to_string(*sink.pages_per_minute) : std::string(); }});
  all.push_back({"body", "a template of at most 64 KiB", "webhook: sent in place of its own JSON, with {{fields}} of that",
                 [&sink](const std::string& value) {
                   if (value.size() > (64U << 10)) return false;
                   sink.body = value;
                   return true;
                 },
                 [&sink] { return sink.body; }});
  all.push_back(text("from", sink.from, "email: the sender's address"));
  all.push_back(text("user", sink.user, "email: who logs in; empty = nobody"));
  all.push_back(flag("tls", sink.tls, "email: smtp:// must be upgraded by STARTTLS"));
  return all;
}

std::vector<std::string>* sink_list(alerting::SinkConfig& sink, const std::string& key) {
  if (key == "match") return &sink.match;
  if (key == "to") return &sink.to;
  if (key == "command") return &sink.command;
  return nullptr;
}

}  // namespace scalewatch::app

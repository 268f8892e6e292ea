#include <optional>

#include "server/app/settings.h"

namespace scalewatch::app {

std::vector<Setting> sink_settings(alerting::SinkConfig& sink) {
  std::vector<Setting> all;
  all.push_back(text("name", sink.name, "what the sink is called in metrics and in the history"));
  all.push_back(text("type", sink.type, "webhook or alertmanager"));
  all.push_back(text("url", sink.url, "where alerts are sent; of an Alertmanager its base address"));
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
  return all;
}

}  // namespace scalewatch::app

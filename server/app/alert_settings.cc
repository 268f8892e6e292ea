#include <optional>

#include "server/app/settings.h"

namespace scalewatch::app {

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kHour = 3600 * kSecond;
constexpr std::int64_t kWeek = 7 * 24 * kHour;

Setting optional_duration(std::string key, std::optional<milliseconds>& field, std::string help) {
  return {std::move(key), "a duration from 0 to 7d", std::move(help),
          [&field](const std::string& value) {
            const auto parsed = parse_duration(value);
            if (!parsed || *parsed < 0 || *parsed > kWeek) return false;
            field = milliseconds(*parsed);
            return true;
          },
          [&field] { return field ? format_duration(field->count()) : std::string(); }};
}

}  // namespace

void add_alert_settings(alerting::BookOptions& options, std::vector<Setting>& all) {
  all.push_back(duration("alerting.group_wait", options.group_wait, 0, 30 * kSecond,
                         "alerts of a run that come within this are one page"));
  all.push_back(
      duration("alerting.repeat", options.repeat, 0, kWeek, "an alert that nobody acknowledged is paged again; 0 = never"));
  all.push_back(number("alerting.flap_times", options.flap_times, 0, 1000,
                       "an alert that fired so often within flap_window is held back; 0 = never"));
  all.push_back(duration("alerting.flap_window", options.flap_window, kSecond, kWeek, "see flap_times"));
  all.push_back(duration("alerting.flap_hold", options.flap_hold, kSecond, kWeek,
                         "such an alert pages once it has been open for so long"));
  all.push_back(text("alerting.allowed_hosts", options.allowed_hosts,
                     "hosts that sinks may send to, patterns with * and commas between; empty = all but link-local ones"));
  all.push_back(
      text("alerting.runbook_url", options.runbook_url, "of runbooks; {rule} becomes the rule's name; empty = no links"));
}

std::vector<Setting> override_settings(alerting::AlertOverride& override) {
  std::vector<Setting> all;
  all.push_back(text("runs", override.runs, "pattern of run names, such as nightly-*"));
  all.push_back(text("rules", override.rules, "pattern of rule names, such as Scale*"));
  all.push_back({"page", "true or false", "false: such alerts are shown, and nobody is told",
                 [&override](const std::string& value) {
                   if (value != "true" && value != "false") return false;
                   override.page = value == "true";
                   return true;
                 },
                 [&override] { return override.page ? std::string(*override.page ? "true" : "false") : std::string(); }});
  all.push_back({"min_severity", "one of info, warning, critical", "nobody is told of such alerts below it",
                 [&override](const std::string& value) {
                   override.min_severity = alerting::parse_severity(value);
                   return override.min_severity.has_value();
                 },
                 [&override] {
                   return override.min_severity ? std::string(alerting::severity_name(*override.min_severity)) : std::string();
                 }});
  all.push_back(optional_duration("hold", override.hold, "such alerts stay pending for so long before people are told"));
  all.push_back(optional_duration("repeat", override.repeat, "in place of alerting.repeat"));
  return all;
}

}  // namespace scalewatch::app

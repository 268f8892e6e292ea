// The table of all keys: from it come the file's reader, --set, the help, and the check of the example file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/app/config.h"

namespace scalewatch::app {

struct Setting {
  std::string key;       // "engine.commit_delay"
  std::string expected;  // "a duration from 1ms to 10s"
  std::string help;
  std::function<bool(const std::string&)> set;  // false when the text is not what is expected
  std::function<std::string()> get;             // as a file would say it
};

// Bound to `config`, which must outlive them. In the order that the help and the example file have.
std::vector<Setting> settings(Config& config);

// Of one entry of alerting.sinks, but for its headers and lists.
std::vector<Setting> sink_settings(alerting::SinkConfig& sink);
// Where a key of it that takes a list is kept; null for other keys.
std::vector<std::string>* sink_list(alerting::SinkConfig& sink, const std::string& key);
// Of one entry of alerting.overrides.
std::vector<Setting> override_settings(alerting::AlertOverride& override);
// alerting.*, but for its lists.
void add_alert_settings(alerting::BookOptions& options, std::vector<Setting>& all);

// Sets one key; throws ConfigError when there is no such key or the value is not what it expects.
void apply(std::vector<Setting>& all, const std::string& key, const std::string& value);

// ---- makers of rows -------------------------------------------------------------------------------------------------

Setting duration(std::string key, std::chrono::milliseconds& field, std::int64_t min, std::int64_t max, std::string help);
Setting size(std::string key, std::function<std::uint64_t()> get, std::function<void(std::uint64_t)> set, std::uint64_t min,
             std::uint64_t max, std::string help);
Setting size(std::string key, std::size_t& field, std::uint64_t min, std::uint64_t max, std::string help);
Setting number(std::string key, std::function<std::uint64_t()> get, std::function<void(std::uint64_t)> set, std::uint64_t min,
               std::uint64_t max, std::string help);
template <class Number>
Setting number(std::string key, Number& field, std::uint64_t min, std::uint64_t max, std::string help) {
  return number(
      std::move(key), [&field] { return static_cast<std::uint64_t>(field); },
      [&field](std::uint64_t value) { field = static_cast<Number>(value); }, min, max, std::move(help));
}
Setting real(std::string key, double& field, double min, double max, std::string help);
Setting choice(std::string key, std::string& field, std::vector<std::string> choices, std::string help);
Setting text(std::string key, std::string& field, std::string help);
Setting flag(std::string key, bool& field, std::string help);
Setting address(std::string key, Address& field, std::string help);

// history.clickhouse.*
void add_clickhouse_settings(clickhouse::Options& options, std::vector<Setting>& all);
// fleet.*
void add_fleet_settings(fleet::Options& options, std::vector<Setting>& all);

// rules.*: the thresholds of the rules.
void add_rule_settings(domain::Thresholds& thresholds, std::vector<Setting>& all);

}  // namespace scalewatch::app

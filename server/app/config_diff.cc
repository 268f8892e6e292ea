#include "server/app/config_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "server/app/settings.h"

namespace scalewatch::app {
namespace {

bool is_rule(std::string_view key) {
  return key.starts_with("rules.");
}
// alerting.flush is of the stop, and what waits for the stop took it at the start.
bool is_alerting(std::string_view key) {
  return key.starts_with("alerting.") && key != "alerting.flush";
}

std::string quoted(const std::string& value) {
  return value.empty() ? "\"\"" : value;
}

std::vector<std::string> texts(const std::vector<RunRules>& all) {
  std::vector<std::string> out;
  for (const RunRules& rules : all) {
    std::string entry = "runs: " + rules.runs;
    for (const auto& [key, value] : rules.values) entry += fmt::format(", {}: {}", key, quoted(value));
    out.push_back("{" + entry + "}");
  }
  return out;
}

std::vector<std::string> texts(std::vector<alerting::AlertOverride> all) {
  std::vector<std::string> out;
  for (alerting::AlertOverride& override : all) {
    std::vector<std::string> parts;
    for (const Setting& setting : override_settings(override)) {
      if (const std::string value = setting.get(); !value.empty()) parts.push_back(setting.key + ": " + value);
    }
    out.push_back(fmt::format("{{{}}}", fmt::join(parts, ", ")));
  }
  return out;
}

// A list whose entries have no names: what went, what came.
void compare_lists(const std::string& key, const std::vector<std::string>& was, const std::vector<std::string>& is,
                   std::vector<std::string>& out) {
  if (was == is) return;
  const std::size_t before = out.size();
  const auto only_in = [&](const std::vector<std::string>& here, std::vector<std::string> there, const char* what) {
    for (const std::string& entry : here) {
      const auto found = std::find(there.begin(), there.end(), entry);
      if (found == there.end()) {
        out.push_back(fmt::format("{}: {} {}", key, what, entry));
      } else {
        there.erase(found);
      }
    }
  };
  only_in(was, is, "without");
  only_in(is, was, "with");
  if (out.size() == before) out.push_back(key + ": in another order");
}

std::string text_of(const alerting::Secret& secret) {
  return secret.file + '\n' + secret.env + '\n' + secret.prefix;
}

// Every setting of a sink by its name.
std::map<std::string, std::string> fields(alerting::SinkConfig sink) {
  std::map<std::string, std::string> out;
  for (const Setting& setting : sink_settings(sink)) {
    if (setting.key != "name") out[setting.key] = setting.get();
  }
  for (const char* key : {"match", "to", "command"}) out[key] = fmt::format("{}", fmt::join(*sink_list(sink, key), "\n"));
  for (const auto& [name, value] : sink.headers) out["headers." + name] = value;
  for (const auto& [name, secret] : sink.secret_headers) out["headers." + name] = text_of(secret);
  return out;
}

void compare_sinks(const std::vector<alerting::SinkConfig>& was, const std::vector<alerting::SinkConfig>& is,
                   std::vector<std::string>& out) {
  const auto named = [](const std::vector<alerting::SinkConfig>& all, const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const auto& sink) { return sink.name == name; });
  };
  for (const alerting::SinkConfig& sink : was) {
    const auto now = named(is, sink.name);
    if (now == is.end()) {
      out.push_back(fmt::format("alerting.sinks: without {}", sink.name));
      continue;
    }
    const auto before = fields(sink);
    auto after = fields(*now);
    std::vector<std::string> changed;
    for (const auto& [key, value] : before) {
      if (const auto found = after.find(key); found == after.end() || found->second != value) changed.push_back(key);
      after.erase(key);
    }
    for (const auto& [key, value] : after) changed.push_back(key);
    if (!changed.empty())
      out.push_back(fmt::format("alerting.sinks: {} has other settings ({})", sink.name, fmt::join(changed, ", ")));
  }
  for (const alerting::SinkConfig& sink : is) {
    if (named(was, sink.name) == was.end()) out.push_back(fmt::format("alerting.sinks: with {}", sink.name));
  }
}

}  // namespace

ConfigDiff differences(const Config& running, const Config& wanted) {
  ConfigDiff out;
  Config was = running;
  Config is = wanted;
  const std::vector<Setting> before = settings(was);
  const std::vector<Setting> after = settings(is);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::string& key = before[i].key;
    const std::string from = before[i].get();
    const std::string to = after[i].get();
    if (from == to) continue;
    out.rules = out.rules || is_rule(key);
    out.alerting = out.alerting || is_alerting(key);
    (is_rule(key) || is_alerting(key) ? out.live : out.need_restart)
        .push_back(fmt::format("{}: {} -> {}", key, quoted(from), quoted(to)));
  }
  const std::size_t settings_only = out.live.size();
  compare_lists("rules_by_run", texts(running.rules_by_run), texts(wanted.rules_by_run), out.live);
  out.rules = out.rules || out.live.size() > settings_only;
  const std::size_t with_rules = out.live.size();
  compare_lists("alerting.overrides", texts(running.alerts.overrides), texts(wanted.alerts.overrides), out.live);
  compare_sinks(running.sinks, wanted.sinks, out.live);
  out.alerting = out.alerting || out.live.size() > with_rules;
  return out;
}

Config with_live_part(const Config& running, const Config& wanted) {
  Config out = running;
  out.engine.thresholds = wanted.engine.thresholds;
  out.rules_by_run = wanted.rules_by_run;
  out.alerts = wanted.alerts;
  out.sinks = wanted.sinks;
  bind_sinks(out);  // to addresses as they are until a restart
  return out;
}

}  // namespace scalewatch::app

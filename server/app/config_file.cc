#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ios>
#include <set>
#include <string_view>
#include <system_error>

#include "server/app/config.h"
#include "server/app/settings.h"
#include "server/names/nearest.h"

namespace scalewatch::app {
namespace {

constexpr std::uintmax_t kMostBytes = 4 << 20;  // a file that is larger is another one

class FileReader {
 public:
  FileReader(const std::string& path, Config& config) : path_(path), config_(config), settings_(settings(config)) {}

  void read() {
    YAML::Node root;
    std::error_code ignored;
    if (std::filesystem::is_directory(path_, ignored)) throw ConfigError(path_ + ": cannot be read: it is a folder");
    if (std::filesystem::is_regular_file(path_, ignored) && std::filesystem::file_size(path_, ignored) > kMostBytes) {
      throw ConfigError(path_ + ": is larger than 4 MiB");
    }
    try {
      root = YAML::LoadFile(path_);
    } catch (const YAML::BadFile&) {
      throw ConfigError(path_ + ": cannot be read");
    } catch (const YAML::Exception& error) {
      throw ConfigError(fmt::format("{}:{}: not YAML: {}", path_, error.mark.line + 1, error.msg));
    } catch (const std::ios_base::failure&) {
      throw ConfigError(path_ + ": cannot be read");
    }
    if (root.IsNull()) return;  // nothing but comments
    read_map(root, "");
  }

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw ConfigError(fmt::format("{}:{}: {}", path_, node.Mark().line + 1, what));
  }

  static std::string scalar(const YAML::Node& node) { return node.IsNull() ? "" : node.Scalar(); }

  // Calls `visit(name, key node, value)` for each entry, none of which may be there twice.
  template <class Visit>
  void each(const YAML::Node& map, const std::string& what, const Visit& visit) const {
    if (!map.IsMap()) fail(map, (what.empty() ? "the file" : what) + ": expected keys with values");
    std::set<std::string> seen;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar()) fail(entry.first, "a key must be a word");
      const std::string& name = entry.first.Scalar();
      if (!seen.insert(name).second)
        fail(entry.first, fmt::format("{}{}{} is given twice", what, what.empty() ? "" : ".", name));
      visit(name, entry.first, entry.second);
    }
  }

  void read_map(const YAML::Node& map, const std::string& prefix) {
    each(map, prefix, [&](const std::string& name, const YAML::Node& at, const YAML::Node& value) {
      const std::string key = prefix.empty() ? name : prefix + "." + name;
      if (key == "alerting.sinks") return read_sinks(value);
      if (key == "alerting.overrides") return read_overrides(value);
      if (key == "rules_by_run") return read_run_rules(value);
      const bool section = std::any_of(settings_.begin(), settings_.end(),
                                       [&](const Setting& setting) { return setting.key.starts_with(key + "."); });
      if (section) {
        if (!value.IsNull()) read_map(value, key);  // a section whose keys are all commented out
        return;
      }
      set(settings_, at, key, value);
    });
  }

  void set(std::vector<Setting>& all, const YAML::Node& at, const std::string& key, const YAML::Node& value) const {
    const auto known = std::any_of(all.begin(), all.end(), [&](const Setting& setting) { return setting.key == key; });
    if (!known) {
      std::vector<std::string> keys;
      keys.reserve(all.size());
      for (const Setting& setting : all) keys.push_back(setting.key);
      const std::string meant = names::nearest(key, keys);
      fail(at, fmt::format("unknown key {}{}", key, meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant)));
    }
    if (!value.IsScalar() && !value.IsNull()) fail(at, key + ": expected one value");
    try {
      apply(all, key, scalar(value));
    } catch (const ConfigError& error) {
      fail(at, error.what());
    }
  }

  void read_sinks(const YAML::Node& list) {
    config_.sinks.clear();
    if (list.IsNull()) return;
    if (!list.IsSequence()) fail(list, "alerting.sinks: expected a list");
    for (const YAML::Node& node : list) {
      alerting::SinkConfig& sink = config_.sinks.emplace_back();
      std::vector<Setting> all = sink_settings(sink);
      each(node, "alerting.sinks", [&](const std::string& name, const YAML::Node& at, const YAML::Node& value) {
        if (name == "headers") return read_headers(value, sink);
        if (auto* texts = sink_list(sink, name)) return read_texts(name, value, *texts);
        set(all, at, name, value);
      });
      const std::vector<std::string> faults = alerting::validate({sink});
      if (!faults.empty()) fail(node, "alerting.sinks: " + faults.front());
    }
  }

  void read_run_rules(const YAML::Node& list) {
    config_.rules_by_run.clear();
    if (list.IsNull()) return;
    if (!list.IsSequence()) fail(list, "rules_by_run: expected a list");
    for (const YAML::Node& node : list) {
      RunRules& rules = config_.rules_by_run.emplace_back();
      domain::Thresholds scratch;
      std::vector<Setting> all;
      add_rule_settings(scratch, all);
      each(node, "rules_by_run", [&](const std::string& name, const YAML::Node& at, const YAML::Node& value) {
        if (name == "runs") {
          rules.runs = value.IsScalar() ? value.Scalar() : "";
          return;
        }
        set(all, at, "rules." + name, value);
        rules.values.emplace_back(name, scalar(value));
      });
      if (rules.runs.empty()) fail(node, "rules_by_run: expected runs, a pattern such as \"nightly-*\"");
    }
  }

  void read_overrides(const YAML::Node& list) {
    config_.alerts.overrides.clear();
    if (list.IsNull()) return;
    if (!list.IsSequence()) fail(list, "alerting.overrides: expected a list");
    for (const YAML::Node& node : list) {
      std::vector<Setting> all = override_settings(config_.alerts.overrides.emplace_back());
      each(node, "alerting.overrides",
           [&](const std::string& name, const YAML::Node& at, const YAML::Node& value) { set(all, at, name, value); });
    }
  }

  // One text, or a list of them.
  void read_texts(const std::string& key, const YAML::Node& node, std::vector<std::string>& texts) const {
    if (node.IsScalar()) {
      texts.push_back(node.Scalar());
      return;
    }
    if (!node.IsSequence()) fail(node, key + ": expected a list of texts");
    for (const YAML::Node& each_text : node) {
      if (!each_text.IsScalar()) fail(each_text, key + ": expected a list of texts");
      texts.push_back(each_text.Scalar());
    }
  }

  // A header's value that stands elsewhere: {file: PATH} or {env: NAME}, and perhaps {prefix: "Bearer "}.
  alerting::Secret read_secret(const std::string& header, const YAML::Node& map) const {
    alerting::Secret secret;
    each(map, "headers." + header, [&](const std::string& name, const YAML::Node& at, const YAML::Node& value) {
      std::string* const field = name == "file"     ? &secret.file
                                 : name == "env"    ? &secret.env
                                 : name == "prefix" ? &secret.prefix
                                                    : nullptr;
      if (field == nullptr || !value.IsScalar()) fail(at, "headers." + header + ": expected a text, or file, env and prefix");
      *field = value.Scalar();
    });
    if (!secret.set()) fail(map, "headers." + header + ": expected file or env");
    return secret;
  }

  void read_headers(const YAML::Node& map, alerting::SinkConfig& sink) const {
    each(map, "headers", [&](const std::string& name, const YAML::Node& at, const YAML::Node& value) {
      if (value.IsMap()) {
        sink.secret_headers[name] = read_secret(name, value);
        return;
      }
      if (!value.IsScalar()) fail(at, "headers." + name + ": expected one value");
      sink.headers[name] = value.Scalar();
    });
  }

  const std::string path_;
  Config& config_;
  std::vector<Setting> settings_;
};

}  // namespace

void load_file(const std::string& path, Config& config) {
  FileReader(path, config).read();
}

}  // namespace scalewatch::app

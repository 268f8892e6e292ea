#include "server/cli/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "server/names/escape.h"
#include "server/names/nearest.h"

namespace scalewatch::cli {

namespace {

using Set = std::function<void(const YAML::Node&, GlobalOptions&)>;

// Every key, as the manual page lists them.
const std::map<std::string, Set>& keys() {
  static const std::map<std::string, Set> kKeys{
      {"server", [](const YAML::Node& node, GlobalOptions& options) { options.server = node.as<std::string>(); }},
      {"token_file",
       [](const YAML::Node& node, GlobalOptions& options) { options.credentials.token_file = node.as<std::string>(); }},
      {"ca_file", [](const YAML::Node& node, GlobalOptions& options) { options.credentials.ca_file = node.as<std::string>(); }},
      {"cert_file",
       [](const YAML::Node& node, GlobalOptions& options) { options.credentials.cert_file = node.as<std::string>(); }},
      {"key_file",
       [](const YAML::Node& node, GlobalOptions& options) { options.credentials.key_file = node.as<std::string>(); }},
      {"color", [](const YAML::Node& node, GlobalOptions& options) { options.color = node.as<bool>(); }},
      {"unicode", [](const YAML::Node& node, GlobalOptions& options) { options.ascii = !node.as<bool>(); }},
      {"pager", [](const YAML::Node& node, GlobalOptions& options) { options.pager = node.as<bool>(); }},
      {"time", [](const YAML::Node& node, GlobalOptions& options) { options.time = parse_time_style(node.as<std::string>()); }},
      {"width", [](const YAML::Node& node, GlobalOptions& options) {
         const int width = node.as<int>();
         if (width < 0 || width > 100'000) throw ConfigError("width is not in 0 to 100000");
         options.width = width;
       }}};
  return kKeys;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace

TimeStyle parse_time_style(const std::string& word) {
  if (word == "relative") return TimeStyle::kRelative;
  if (word == "absolute") return TimeStyle::kAbsolute;
  if (word == "utc") return TimeStyle::kUtc;
  throw ConfigError("time is relative, absolute or utc, not " + names::escape(word));
}

std::optional<ConfigPath> config_path() {
  if (const auto named = environment("SCALEWATCH_CONFIG"); !named.empty()) return ConfigPath{named, true};
  auto folder = environment("XDG_CONFIG_HOME");
  if (folder.empty() || folder.front() != '/') {  // the standard says to ignore relative paths
    folder = environment("HOME");
    if (folder.empty()) return std::nullopt;
    folder += "/.config";
  }
  return ConfigPath{folder + "/scalewatch/config.yaml", false};
}

void read_config(const ConfigPath& path, GlobalOptions& options) {
  std::error_code error;
  if (!path.required && !std::filesystem::exists(path.path, error)) return;
  const auto where = names::escape(path.path);
  if (std::filesystem::is_directory(path.path, error)) throw ConfigError(where + " can't be read: it is a folder");
  YAML::Node root;
  try {
    root = YAML::LoadFile(path.path);
  } catch (const YAML::BadFile&) {
    throw ConfigError(where + " can't be read");
  } catch (const YAML::Exception& wrong) {
    throw ConfigError(fmt::format("{}:{}: {}", where, wrong.mark.line + 1, names::escape(wrong.msg)));
  }
  if (root.IsNull()) return;
  if (!root.IsMap()) throw ConfigError(where + ": lines of KEY: VALUE are wanted");
  for (const auto& entry : root) {
    const int line = entry.first.Mark().line + 1;
    const auto key = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
    const auto found = keys().find(key);
    if (found == keys().end()) {
      std::vector<std::string> known;
      for (const auto& [name, set] : keys()) known.push_back(name);
      const auto meant = names::nearest(key, known);
      throw ConfigError(
          fmt::format("{}:{}: unknown key '{}': {}", where, line, names::escape(key),
                      meant.empty() ? fmt::format("known are {}", fmt::join(known, ", ")) : "did you mean " + meant + "?"));
    }
    try {
      found->second(entry.second, options);
    } catch (const YAML::Exception&) {
      throw ConfigError(fmt::format("{}:{}: the value of {} is not of its kind", where, line, key));
    } catch (const ConfigError& wrong) {
      throw ConfigError(fmt::format("{}:{}: {}", where, line, wrong.what()));
    }
  }
}

}  // namespace scalewatch::cli

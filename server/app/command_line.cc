#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "server/app/config.h"
#include "server/app/settings.h"
#include "server/app/version.h"
#include "server/auth/token_file.h"
#include "server/metrics/catalog.h"

namespace scalewatch::app {
namespace {

std::string all_keys() {
  Config defaults;
  std::string out = "Keys of the configuration file and of --set, with their defaults:\n";
  for (const Setting& setting : settings(defaults)) {
    const std::string value = setting.get();
    out += fmt::format("  {:<52} {}; {}\n", setting.key + " = " + (value.empty() ? "\"\"" : value), setting.help,
                       setting.expected);
  }
  return out +
         "  alerting.sinks, alerting.overrides: only in a file; lists, see deploy/scalewatchd.yaml\n"
         "Exit codes: 0 stopped as told, 1 cannot run or go on, 2 wrong configuration or command line.";
}

// A flag that stands for a key.
struct Shortcut {
  const char* flag;
  const char* key;
  const char* value;  // name in the help
  const char* help;
};
constexpr Shortcut kShortcuts[] = {
    {"--data-dir", "data_dir", "DIR", "Folder of the history; made when missing"},
    {"--listen", "listen.grpc", "IP:PORT", "gRPC: where trainers and tools connect; port 0 = any free one"},
    {"--http", "listen.http", "IP:PORT", "HTTP: metrics, health, JSON API; port 0 = any free one"},
    {"--port-file", "listen.port_file", "FILE", "Write \"grpc=PORT\" and \"http=PORT\" to FILE once both listen"},
    {"--log-level", "log.level", "LEVEL", "debug, info, warning, error or off"},
    {"--log-format", "log.format", "FORMAT", "text or json, one line an event on standard error"},
};

// Sets `key` as `flag` says; errors name the flag, since no file is at fault.
void apply_flag(Config& config, const std::string& flag, const std::string& key, const std::string& value) {
  std::vector<Setting> all = settings(config);
  try {
    apply(all, key, value);
  } catch (const ConfigError& error) {
    throw ConfigError(flag + ": " + error.what());
  }
}

void check_tokens(const std::string& file) {
  try {
    auth::read_tokens(file);
  } catch (const auth::TokenFileError& error) {
    throw ConfigError(std::string("auth.tokens_file: ") + error.what());
  }
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv, bool again) {
  CommandLine out;
  std::map<std::string, std::string> given;
  std::vector<std::string> sets;
  bool insecure = false;
  bool anonymous = false;
  bool metrics_reference = false;

  CLI::App app("scalewatchd: watches the numbers of mixed-precision training.", "scalewatchd");
  app.set_version_flag("--version", std::string("scalewatchd ") + kVersion);
  app.add_option("--config", out.file,
                 "YAML file of keys; flags override it. SIGHUP and `scalewatch admin reload` read it again")
      ->option_text("FILE");
  Config defaults;
  for (const Shortcut& shortcut : kShortcuts) {
    std::string standard;
    for (const Setting& setting : settings(defaults)) {
      if (setting.key == shortcut.key) standard = setting.get();
    }
    app.add_option(shortcut.flag, given[shortcut.flag], shortcut.help)
        ->option_text(shortcut.value + (standard.empty() ? "" : " [" + standard + "]"));
  }
  app.add_flag("--insecure-listen", insecure, "Allow addresses other than loopback without TLS");
  app.add_flag("--anonymous-listen", anonymous,
               "Allow them without tokens or clients' certificates: whoever reaches them may do everything");
  app.add_option("--set", sets, "Set any key below; may be given again")->option_text("KEY=VALUE")->allow_extra_args(false);
  app.add_flag("--check", out.check, "Validate the configuration and exit");
  app.add_flag("--metrics-reference", metrics_reference, "Print what /metrics shows, as Markdown, and exit");
  app.footer(all_keys);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out.message = app.help();
    return out;
  } catch (const CLI::CallForVersion& version) {
    out.message = std::string(version.what()) + "\n";
    return out;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(std::string(error.what()) + "; see --help");
  }

  if (metrics_reference) {
    out.message = metrics::reference();
    return out;
  }
  if (again && std::filesystem::exists(out.file) && !std::filesystem::is_regular_file(out.file)) {
    throw ConfigError(out.file + ": is not a file that can be read again");
  }
  if (again && std::filesystem::exists(out.file) && std::filesystem::file_size(out.file) == 0) {
    throw ConfigError(out.file + ": is empty; it may be half written");  // not a wish for the defaults
  }
  if (!out.file.empty()) load_file(out.file, out.config);
  for (const std::string& set : sets) {
    const auto equals = set.find('=');
    if (equals == std::string::npos) throw ConfigError("--set " + set + ": expected KEY=VALUE");
    apply_flag(out.config, "--set", set.substr(0, equals), set.substr(equals + 1));
  }
  for (const Shortcut& shortcut : kShortcuts) {
    if (app.count(shortcut.flag) > 0) apply_flag(out.config, shortcut.flag, shortcut.key, given[shortcut.flag]);
  }
  if (insecure) out.config.insecure_listen = true;
  if (anonymous) out.config.anonymous_listen = true;
  bind_sinks(out.config);
  validate(out.config);
  if (out.check && !out.config.gate.tokens_file.empty()) check_tokens(out.config.gate.tokens_file);
  return out;
}

}  // namespace scalewatch::app

// The command's own configuration file: what a person is tired of typing.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "server/cli/options.h"

namespace scalewatch::cli {

// The file can't be read, or says what it can't. The message is one line, safe to print.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where it lies: $SCALEWATCH_CONFIG, else $XDG_CONFIG_HOME/scalewatch/config.yaml, else ~/.config/scalewatch/config.yaml.
// `required`: it was named, so it must exist. Absent without a home.
struct ConfigPath {
  std::string path;
  bool required = false;
};
std::optional<ConfigPath> config_path();

// Reads the file over the defaults; a file that is absent and not required changes nothing. Throws ConfigError.
void read_config(const ConfigPath& path, GlobalOptions& options);

// Of a value that a file or an option gives; throws ConfigError.
TimeStyle parse_time_style(const std::string& word);

}  // namespace scalewatch::cli

// What a parsed command line asks for.
#pragma once

#include <functional>
#include <stop_token>

#include "server/cli/client.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

using Action = std::function<ExitCode(Client&, const Screen&, const std::stop_token&)>;

struct Chosen {
  bool streams = false;  // the command goes on until it is interrupted
  Action action;
  std::function<ExitCode(const Screen&, const std::stop_token&)> local;  // in place of it: asks no server
};

}  // namespace scalewatch::cli

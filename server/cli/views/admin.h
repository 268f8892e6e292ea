// scalewatch admin: what is done to a server's data folder by hand (see server/history/maintenance.h, also for why on the
// folder), and to a running server.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "server/cli/action.h"
#include "server/cli/views/admin_token.h"
#include "server/cli/views/reload.h"

namespace scalewatch::cli {

// Lives as long as the app that it was added to, and so does `chosen`.
class AdminCommands {
 public:
  void add_to(CLI::App& app, Chosen& chosen);

 private:
  std::string folder_ = "./scalewatch-data";
  std::string to_;
  bool repair_ = false;
  ReloadOptions reload_;
  TokenCommands tokens_;
};

}  // namespace scalewatch::cli

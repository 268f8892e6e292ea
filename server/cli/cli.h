// The scalewatch command without a process around it: what to do with a command line.
#pragma once

#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <ostream>
#include <stop_token>

#include "server/cli/config_file.h"

namespace scalewatch::cli {

// What the command finds around it.
struct Environment {
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;    // out is a terminal that shows colours
  int width = 80;           // columns of the terminal
  std::int64_t now_ms = 0;  // Unix milliseconds
  // Called once, and only by commands that follow a stream, before they connect: what ends them.
  std::function<std::stop_token()> interrupt;
  std::istream* in = &std::cin;        // standard input
  bool err_terminal = false;           // err is a terminal
  int rows = 0;                        // of the terminal that out is, and out is standard output; 0 = nothing is paged
  std::optional<ConfigPath> config{};  // the configuration file
};

// Runs the command line and returns the exit code (see ExitCode in client.h). Reads SCALEWATCH_SERVER, NO_COLOR and PAGER.
// Errors go to env.err as one line; nothing is thrown.
int run(int argc, const char* const* argv, const Environment& env);

}  // namespace scalewatch::cli

// The commands that read a file: a log, or a trace of a scaler: what they are called and what they take.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <ostream>

#include "server/cli/action.h"
#include "server/cli/options.h"

namespace scalewatch::cli {

// Lives as long as the app that it was added to, and so does `chosen`.
class LogCommands {
 public:
  // in: standard input; progress: where a progress bar may be drawn; null: nowhere.
  LogCommands(std::istream* in, std::ostream* progress) : in_(in), progress_(progress) {}

  void add_to(CLI::App& app, Chosen& chosen);

 private:
  void add_doctor(CLI::App& app, Chosen& chosen);
  void add_import(CLI::App& app, Chosen& chosen);
  void add_replay(CLI::App& app, Chosen& chosen);

  std::istream* in_;
  std::ostream* progress_;
  DoctorOptions doctor_;
  ImportOptions import_;
  ReplayOptions replay_;
};

}  // namespace scalewatch::cli

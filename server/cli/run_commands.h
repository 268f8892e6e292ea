// The commands that list and show runs and their tensors: what they are called and what they take.
#pragma once

#include <CLI/CLI.hpp>

#include "server/cli/action.h"
#include "server/cli/options.h"

namespace scalewatch::cli {

// Lives as long as the app that it was added to, and so does `chosen`.
class RunCommands {
 public:
  void add_to(CLI::App& app, Chosen& chosen);

 private:
  void add_lists(CLI::App& app, Chosen& chosen);
  void add_run_views(CLI::App& app, Chosen& chosen);
  void add_tensor_views(CLI::App& app, Chosen& chosen);

  RunsOptions runs_;
  ShowOptions show_;
  ScalerOptions scaler_;
  TensorsOptions tensors_;
  HistoryOptions history_;
  TopOptions top_;
  TailOptions tail_;
};

}  // namespace scalewatch::cli

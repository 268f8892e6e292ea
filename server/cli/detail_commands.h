// The commands that look at a run in detail, and those that make something of it: what they are called and what they take.
#pragma once

#include <CLI/CLI.hpp>

#include "server/cli/action.h"
#include "server/cli/options.h"

namespace scalewatch::cli {

// Lives as long as the app that it was added to, and so does `chosen`.
class DetailCommands {
 public:
  void add_to(CLI::App& app, Chosen& chosen);

 private:
  void add_attempt(CLI::App& app, Chosen& chosen);
  void add_heatmap(CLI::App& app, Chosen& chosen);
  void add_export(CLI::App& app, Chosen& chosen);
  void add_report(CLI::App& app, Chosen& chosen);
  void add_checklist(CLI::App& app, Chosen& chosen);
  void add_watch(CLI::App& app, Chosen& chosen);
  void add_compare(CLI::App& app, Chosen& chosen);
  void add_whatif(CLI::App& app, Chosen& chosen);
  void add_shell(CLI::App& app, Chosen& chosen);

  AttemptOptions attempt_;
  HeatmapOptions heatmap_;
  ExportOptions export_;
  ReportOptions report_;
  ChecklistOptions checklist_;
  WatchOptions watch_;
  CompareOptions compare_;
  WhatIfOptions whatif_;
  std::string shell_;
};

}  // namespace scalewatch::cli

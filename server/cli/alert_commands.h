// The commands under `alerts` that look at one alert, silence some, and test sinks: what they are called and what they take.
#pragma once

#include <CLI/CLI.hpp>

#include "server/cli/action.h"
#include "server/cli/views/alert_views.h"

namespace scalewatch::cli {

// Lives as long as the app that it was added to, and so does `chosen`.
class AlertCommands {
 public:
  // `alerts` is the command that they go under.
  void add_to(CLI::App& alerts, Chosen& chosen);

 private:
  ShowAlertOptions show_;
  SilenceOptions silence_;
  SilencesOptions silences_;
  UnsilenceOptions unsilence_;
  TestSinksOptions test_;
  DeadLettersOptions dead_;
  ReplayLettersOptions replay_;
};

}  // namespace scalewatch::cli

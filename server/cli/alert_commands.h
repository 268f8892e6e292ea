// `alerts`, and the commands under it: what they are called and what they take.
#pragma once

#include <CLI/CLI.hpp>

#include "server/cli/action.h"
#include "server/cli/options.h"
#include "server/cli/views/alert_views.h"

namespace scalewatch::cli {

// Lives as long as the app that it was added to, and so does `chosen`.
class AlertCommands {
 public:
  void add_to(CLI::App& app, Chosen& chosen);

 private:
  void add_list(CLI::App& alerts, Chosen& chosen);
  void add_ack(CLI::App& alerts, Chosen& chosen);
  void add_silences(CLI::App& alerts, Chosen& chosen);
  void add_sinks(CLI::App& alerts, Chosen& chosen);
  void add_watch(CLI::App& alerts, Chosen& chosen);

  AlertsOptions list_;
  AckOptions ack_;
  ShowAlertOptions show_;
  SilenceOptions silence_;
  SilencesOptions silences_;
  UnsilenceOptions unsilence_;
  TestSinksOptions test_;
  DeadLettersOptions dead_;
  ReplayLettersOptions replay_;
  AlertsOptions watch_;
};

}  // namespace scalewatch::cli

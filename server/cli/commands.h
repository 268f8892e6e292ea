// What commands have in common: how they are made, what they take by the same name, and what they do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stop_token>
#include <string>

#include "server/cli/action.h"
#include "server/cli/options.h"

namespace scalewatch::cli {

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description);

// What --json prints: a message of the API, so that nothing has to be said twice.
void prints(CLI::App* command, const std::string& message, const std::string& before = {});

void add_run(CLI::App* command, std::string& run);
void add_role(CLI::App* command, std::string& role);
void add_severity(CLI::App* command, std::string& severity, const std::string& description = "Only what is at least this bad");
CLI::Option* add_segment(CLI::App* command, std::uint32_t& segment);
// first: which attempt it is when nothing is said.
void add_range(CLI::App* command, RangeOptions& range, const std::string& first);
void add_limit(CLI::App* command, std::uint32_t& limit, const std::string& description, std::uint32_t most);

// The command does this. Options live as long as the command.
template <class Options>
void on(CLI::App* command, Chosen& chosen, ExitCode (*view)(Client&, const Options&, const Screen&), const Options& options) {
  command->callback([&chosen, view, &options] {
    chosen.action = [view, &options](Client& client, const Screen& screen, const std::stop_token&) {
      return view(client, options, screen);
    };
  });
}

template <class Options>
void on(CLI::App* command, Chosen& chosen, void (*view)(Client&, const Options&, const Screen&), const Options& options) {
  command->callback([&chosen, view, &options] {
    chosen.action = [view, &options](Client& client, const Screen& screen, const std::stop_token&) {
      view(client, options, screen);
      return kExitOk;
    };
  });
}

// The same for what goes on until it is interrupted.
template <class Options>
void on_stream(CLI::App* command, Chosen& chosen, void (*view)(Client&, const Options&, const Screen&, const std::stop_token&),
               const Options& options) {
  command->callback([&chosen, view, &options] {
    chosen.streams = true;
    chosen.action = [view, &options](Client& client, const Screen& screen, const std::stop_token& stop) {
      view(client, options, screen, stop);
      return kExitOk;
    };
  });
}

}  // namespace scalewatch::cli

// CLI11's tree as plain values: what commands there are and what each takes.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace scalewatch::cli {

struct TreeOption {
  std::vector<std::string> names;    // "--limit"; with dashes, empty for a positional one
  std::string metavar;               // of a positional one: "RUN"
  std::string description;           // first sentence, without what CLI11 adds
  std::string default_value;         // empty: none to show
  std::vector<std::string> choices;  // what a value may be; empty: anything
  bool takes_value = false;
  bool required = false;
  bool file = false;  // takes a file's name
};

struct TreeCommand {
  std::vector<std::string> path;  // {"alerts", "ack"}; empty for the root
  std::string description;
  std::string footer;
  std::vector<TreeOption> options;  // its own, --help left out
  std::vector<TreeCommand> commands;
};

TreeCommand command_tree(const CLI::App& app);

// The command and all below it, each before its own.
std::vector<const TreeCommand*> all_commands(const TreeCommand& root);

}  // namespace scalewatch::cli

#include "server/cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace scalewatch::cli {

namespace {

// CLI11 tells a check's members only as text: "{info,warning,critical}", after the type's name and a colon where there is one.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto begin = type.find('{');
  const auto end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  std::vector<std::string> out;
  std::string word;
  for (const char c : type.substr(begin + 1, end - begin - 1)) {
    if (c == ',') {
      out.push_back(std::exchange(word, {}));
    } else {
      word += c;
    }
  }
  out.push_back(word);
  return out;
}

TreeOption option_of(const CLI::Option& option) {
  TreeOption out;
  for (const auto& name : option.get_snames()) out.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) out.names.push_back("--" + name);
  if (out.names.empty()) out.metavar = option.get_name(true);
  out.description = option.get_description();
  out.default_value = option.get_default_str();
  out.choices = choices_of(option);
  out.takes_value = option.get_items_expected_max() > 0;
  out.required = option.get_required();
  out.file = out.metavar == "FILE" || out.metavar == "TRACE" || out.metavar == "WHAT";
  return out;
}

TreeCommand command_of(const CLI::App& app, std::vector<std::string> path) {
  TreeCommand out;
  out.path = std::move(path);
  out.description = app.get_description();
  out.footer = app.get_footer();
  for (const auto* option : app.get_options()) {
    if (option == app.get_help_ptr()) continue;
    out.options.push_back(option_of(*option));
  }
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    auto below = out.path;
    below.push_back(sub->get_name());
    out.commands.push_back(command_of(*sub, std::move(below)));
  }
  return out;
}

void gather(const TreeCommand& command, std::vector<const TreeCommand*>& out) {
  out.push_back(&command);
  for (const auto& sub : command.commands) gather(sub, out);
}

}  // namespace

TreeCommand command_tree(const CLI::App& app) {
  return command_of(app, {});
}

std::vector<const TreeCommand*> all_commands(const TreeCommand& root) {
  std::vector<const TreeCommand*> out;
  gather(root, out);
  return out;
}

}  // namespace scalewatch::cli

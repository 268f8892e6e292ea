#include "server/cli/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "server/names/escape.h"
#include "server/names/nearest.h"

namespace scalewatch::cli {

namespace {

constexpr auto kAnySubcommand = [](const CLI::App*) { return true; };

// The innermost command that was understood, with the words that lead to it.
const CLI::App& innermost(const CLI::App& app, std::string& path) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().back();
    path += at->get_name() + ' ';
  }
  return *at;
}

std::string did_you_mean(const std::string& meant) {
  return meant.empty() ? std::string() : ": did you mean " + meant + "?";
}

std::string unknown_command(const CLI::App& at, const std::string& path, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* sub : at.get_subcommands(kAnySubcommand)) names.push_back(sub->get_name());
  const auto meant = names::nearest(word, names);
  return fmt::format("unknown command '{}{}'{}", path, names::escape(word), did_you_mean(meant.empty() ? meant : path + meant));
}

std::string unknown_option(const CLI::App& app, const CLI::App& at, const std::string& path, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* known : {&at, &app}) {
    for (const auto* option : known->get_options()) {
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  const auto plain = word.substr(0, word.find('='));
  std::string of = path.empty() ? std::string() : " of " + path.substr(0, path.size() - 1);
  return fmt::format("unknown option '{}'{}{}", names::escape(plain), of, did_you_mean(names::nearest(plain, names)));
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string path;
  const auto& at = innermost(app, path);
  const auto rest = app.remaining(true);
  const auto first =
      std::find_if(rest.begin(), rest.end(), [](const std::string& word) { return !word.empty() && word != "--"; });
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (first != rest.end() && (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || missing)) {
    if (first->size() > 1 && first->front() == '-') return unknown_option(app, at, path, *first);
    if (!at.get_subcommands(kAnySubcommand).empty()) return unknown_command(at, path, *first);
  }
  if (missing && path.empty()) return "which command? scalewatch --help lists them";
  return names::escape(error.what());
}

}  // namespace scalewatch::cli

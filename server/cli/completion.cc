#include "server/cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "server/cli/command_tree.h"

namespace scalewatch::cli {

namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

// Options of the command and those that go everywhere, as words.
std::vector<std::string> option_words(const TreeCommand& command, const TreeCommand& root) {
  std::vector<std::string> out;
  for (const auto* from : {&command, &root}) {
    for (const auto& option : from->options) out.insert(out.end(), option.names.begin(), option.names.end());
    if (&command == &root) break;
  }
  out.emplace_back("--help");
  return out;
}

std::vector<std::string> command_words(const TreeCommand& command) {
  std::vector<std::string> out;
  for (const auto& sub : command.commands) out.push_back(sub.path.back());
  return out;
}

bool takes(const TreeCommand& command, std::string_view what) {
  return std::any_of(command.options.begin(), command.options.end(),
                     [&](const TreeOption& option) { return option.metavar.starts_with(what); });
}
bool takes_run(const TreeCommand& command) {
  return takes(command, "RUN") || takes(command, "WHAT");
}
bool takes_file(const TreeCommand& command) {
  return std::any_of(command.options.begin(), command.options.end(), [](const TreeOption& option) { return option.file; });
}

// Names of runs, from the server that the environment names; silent where there is none. Only names without a meaning to
// shells.
constexpr const char* kRuns =
    R"sh(scalewatch runs --json --limit 200 2>/dev/null | sed -n 's/^ *"name": "\([A-Za-z0-9._:@%+=,/-]*\)",*$/\1/p')sh";

std::string bash(const TreeCommand& root) {
  std::string out =
      "# bash completion for scalewatch: scalewatch completion bash > /etc/bash_completion.d/scalewatch\n"
      "_scalewatch() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" path=\"\" word\n"
      "  COMPREPLY=()\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$path $word\" in\n";
  for (const auto* command : all_commands(root)) {
    if (command->path.empty()) continue;
    const std::vector<std::string> above(command->path.begin(), command->path.end() - 1);
    out += fmt::format("      \"{} {}\") path=\"{}\" ;;\n", joined(above, " "), command->path.back(), joined(command->path));
  }
  out += "    esac\n  done\n  case \"$path:$previous\" in\n";
  for (const auto* command : all_commands(root)) {
    for (const auto& option : command->options) {
      if (option.names.empty() || !option.takes_value) continue;
      const std::string reply = option.choices.empty() ? "return"
                                                       : fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return",
                                                                     joined(option.choices));
      for (const auto& name : option.names) {
        // Options of the root go with every command.
        out += fmt::format("    {}:{}) {} ;;\n", command->path.empty() ? "*" : '"' + joined(command->path) + '"', name, reply);
      }
    }
  }
  out += "  esac\n  case \"$path\" in\n";
  for (const auto* command : all_commands(root)) {
    out += fmt::format("    \"{}\")\n", joined(command->path));
    out += fmt::format("      if [[ \"$current\" == -* ]]; then COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return; fi\n",
                       joined(option_words(*command, root)));
    if (!command->commands.empty()) {
      out += fmt::format("      COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))\n", joined(command_words(*command)));
    }
    for (const auto& option : command->options) {
      if (option.names.empty() && !option.choices.empty()) {
        out += fmt::format("      COMPREPLY+=($(compgen -W \"{}\" -- \"$current\"))\n", joined(option.choices));
      }
    }
    if (takes_run(*command)) out += fmt::format("      COMPREPLY+=($(compgen -W \"$({})\" -- \"$current\"))\n", kRuns);
    if (takes_file(*command)) out += "      COMPREPLY+=($(compgen -f -- \"$current\"))\n";
    out += "      ;;\n";
  }
  return out + "  esac\n}\ncomplete -F _scalewatch scalewatch\n";
}

std::string zsh(const TreeCommand& root) {
  // zsh runs bash's functions: one script, one behaviour.
  return "#compdef scalewatch\n# zsh completion for scalewatch: scalewatch completion zsh > ~/.zfunc/_scalewatch\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash(root);
}

// For fish's single quotes.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_option(const TreeOption& option, const std::string& condition) {
  std::string out = "complete -c scalewatch";
  if (!condition.empty()) out += fmt::format(" -n {}", fish_quoted(condition));
  for (const auto& name : option.names) out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.takes_value) out += option.choices.empty() ? " -x" : fmt::format(" -x -a {}", fish_quoted(joined(option.choices)));
  return out + fmt::format(" -d {}\n", fish_quoted(option.description));
}

std::string fish(const TreeCommand& root) {
  std::string out =
      "# fish completion for scalewatch: scalewatch completion fish > ~/.config/fish/completions/scalewatch.fish\n"
      "complete -c scalewatch -f\n";
  for (const auto& option : root.options) out += fish_option(option, {});
  for (const auto* command : all_commands(root)) {
    const auto& path = command->path;
    std::string seen;
    for (const auto& word : path) seen += fmt::format("{}__fish_seen_subcommand_from {}", seen.empty() ? "" : "; and ", word);
    const std::string below = command->commands.empty() ? "" : joined(command_words(*command));
    const std::string here = path.empty()    ? std::string("__fish_use_subcommand")
                             : below.empty() ? seen
                                             : fmt::format("{}; and not __fish_seen_subcommand_from {}", seen, below);
    for (const auto& sub : command->commands) {
      out += fmt::format("complete -c scalewatch -n {} -a {} -d {}\n", fish_quoted(here), sub.path.back(),
                         fish_quoted(sub.description));
    }
    if (path.empty()) continue;
    for (const auto& option : command->options) {
      if (!option.names.empty()) {
        out += fish_option(option, here);
      } else if (!option.choices.empty()) {
        out += fmt::format("complete -c scalewatch -n {} -a {}\n", fish_quoted(here), fish_quoted(joined(option.choices)));
      }
    }
    if (takes_run(*command))
      out += fmt::format("complete -c scalewatch -n {} -a \"({})\"\n", fish_quoted(here), "__scalewatch_runs");
    if (takes_file(*command)) out += fmt::format("complete -c scalewatch -n {} -F\n", fish_quoted(here));
  }
  return out + fmt::format("function __scalewatch_runs\n  {}\nend\n", kRuns);
}

}  // namespace

const std::vector<std::string>& shell_choices() {
  static const std::vector<std::string> kWords{"bash", "zsh", "fish"};
  return kWords;
}

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const auto root = command_tree(app);
  return shell == "fish" ? fish(root) : shell == "zsh" ? zsh(root) : bash(root);
}

}  // namespace scalewatch::cli

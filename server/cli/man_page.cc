#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "server/cli/command_tree.h"
#include "server/cli/completion.h"

namespace scalewatch::cli {

namespace {

// For roff: backslashes and dashes are literal, and no line begins with a control character.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string option_text(const TreeOption& option) {
  std::string head;
  for (const auto& name : option.names) head += (head.empty() ? "" : ", ") + fmt::format("\\fB{}\\fR", roff(name));
  if (option.names.empty()) head = fmt::format("\\fI{}\\fR", roff(option.metavar));
  if (option.takes_value && !option.names.empty()) {
    std::string value = option.choices.empty() ? "VALUE" : "";
    // Many choices may be broken over lines, behind each bar.
    for (const auto& choice : option.choices) value += (value.empty() ? "" : "|\\:") + roff(choice);
    head += " \\fI" + value + "\\fR";
  }
  std::string body = option.description;
  if (!option.default_value.empty() && option.takes_value) body += fmt::format(" [{}]", option.default_value);
  if (option.required) body += " (required)";
  return fmt::format(".TP\n{}\n{}\n", head, roff(body));
}

std::string synopsis(const TreeCommand& command) {
  std::string out;
  for (const auto& option : command.options) {
    if (!option.names.empty()) continue;
    out +=
        option.required ? fmt::format(" \\fI{}\\fR", roff(option.metavar)) : fmt::format(" [\\fI{}\\fR]", roff(option.metavar));
  }
  return out;
}

}  // namespace

std::string man_page(const CLI::App& app) {
  const auto root = command_tree(app);
  std::string out =
      ".TH SCALEWATCH 1\n.ad l\n.SH NAME\nscalewatch \\- " + roff("tells how mixed-precision training runs are doing") + "\n";
  out += ".SH SYNOPSIS\n\\fBscalewatch\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n";
  out += ".SH DESCRIPTION\n" + roff(root.description) + "\n.SH OPTIONS\n" + roff("They go before or after the command.") + "\n";
  for (const auto& option : root.options) out += option_text(option);
  out += ".SH COMMANDS\n";
  for (const auto* command : all_commands(root)) {
    if (command->path.empty()) continue;
    out += fmt::format(".SS scalewatch {}{}\n{}\n", roff(fmt::format("{}", fmt::join(command->path, " "))), synopsis(*command),
                       roff(command->description + "."));
    for (const auto& option : command->options) out += option_text(option);
    // CLI11 hands a footer down.
    if (!command->footer.empty() && command->footer != root.footer) out += ".PP\n" + roff(command->footer) + "\n";
  }
  out += ".SH EXIT STATUS\n" + roff(root.footer) + "\n";
  out += ".SH ENVIRONMENT\n.TP\n\\fBSCALEWATCH_SERVER\\fR\n" + roff("Address of scalewatchd, as --server.") +
         "\n.TP\n\\fBNO_COLOR\\fR\n" + roff("When it is set and not empty, nothing is coloured, but for --color.") +
         "\n.TP\n\\fBPAGER\\fR\n" +
         roff(
             "What long output of a terminal goes through; empty or cat: nothing. Unset: less, with LESS=FRX unless LESS is "
             "set.") +
         "\n.TP\n\\fBSCALEWATCH_CONFIG\\fR\n" + roff("The configuration file, in place of the one below.") + "\n";
  out +=
      ".SH FILES\n.TP\n\\fB$XDG_CONFIG_HOME/scalewatch/config.yaml\\fR\n" +
      roff(
          "Lines of KEY: VALUE (YAML), else ~/.config/scalewatch/config.yaml. An option outdoes the environment, which outdoes "
          "the "
          "file. Keys: server (HOST:PORT), color, unicode and pager (true or false), time (relative, absolute or utc), width "
          "(columns; 0 = no limit).") +
      "\n";
  return out;
}

}  // namespace scalewatch::cli

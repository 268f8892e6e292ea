#include "server/cli/commands.h"

#include "server/cli/words.h"

namespace scalewatch::cli {

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description) {
  auto* added = parent.add_subcommand(name, description);
  added->fallthrough();
  return added;
}

void prints(CLI::App* command, const std::string& message, const std::string& before) {
  command->footer(before + (before.empty() ? "" : "\n") + "--json: " + message +
                  " of proto/scalewatch/v1. Fields without presence are always there, optional ones when they have a\n"
                  "value; 64-bit integers are strings; NaN and infinities are \"NaN\", \"Infinity\" and \"-Infinity\".");
}

void add_run(CLI::App* command, std::string& run) {
  command->add_option("RUN", run, "Name or uid of the run")->required();
}

void add_role(CLI::App* command, std::string& role) {
  command->add_option("--role", role, "Only tensors of this role")->transform(role_meant)->check(CLI::IsMember(role_choices()));
}

void add_severity(CLI::App* command, std::string& severity, const std::string& description) {
  command->add_option("--min-severity", severity, description)->check(CLI::IsMember(severity_choices()));
}

CLI::Option* add_segment(CLI::App* command, std::uint32_t& segment) {
  return command->add_option("--segment", segment, "Segment of the run, from 1 (default: the newest)");
}

void add_range(CLI::App* command, RangeOptions& range, const std::string& first) {
  add_segment(command, range.segment);
  command->add_option("--first", range.first, "First attempt (default: " + first + ")");
  command->add_option("--last", range.last, "Last attempt, inclusive (default: the newest)");
}

void add_limit(CLI::App* command, std::uint32_t& limit, const std::string& description, std::uint32_t most) {
  command->add_option("--limit", limit, description)->capture_default_str()->check(CLI::Range(std::uint32_t{1}, most));
}

}  // namespace scalewatch::cli

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "server/cli/text/units.h"
#include "server/cli/views/replay_trace.h"
#include "server/cli/views/views.h"

namespace scalewatch::cli {
namespace {

struct ReplayedStep {
  TraceRow row;
  double before = 0;
  bool skipped = false;
  double after = 0;
};

// Shortest text that reads back as the same double; "inf" where the scale has grown to it.
std::string number(double value) {
  return fmt::format("{}", value);
}

nlohmann::ordered_json json_number(double value) {
  if (std::isinf(value)) return "Infinity";
  return value;
}

// Both print as they go; `note` is empty but for the step at which the scaler raised.
class CsvOut {
 public:
  explicit CsvOut(std::ostream& out) : out_(out) { out_ << "step,found_inf,scale_before,skipped,scale_after,note\n"; }
  void step(const ReplayedStep& step, const std::string& note) {
    out_ << fmt::format("{},{},{},{},{},", step.row.step, number(step.row.found_inf), number(step.before), step.skipped ? 1 : 0,
                        number(step.after));
    if (!note.empty()) out_ << '"' << note << '"';
    out_ << '\n';
  }
  void end() {}

 private:
  std::ostream& out_;
};

class JsonOut {
 public:
  JsonOut(std::ostream& out, const std::string& policy, const domain::PolicyParameters& parameters) : out_(out) {
    out_ << "{\n  \"policy\": " << nlohmann::ordered_json(policy).dump()
         << ",\n  \"parameters\": " << nlohmann::ordered_json(parameters).dump() << ",\n  \"steps\": [";
  }
  void step(const ReplayedStep& step, const std::string& note) {
    nlohmann::ordered_json object{{"step", step.row.step},
                                  {"found_inf", step.row.found_inf},
                                  {"scale_before", json_number(step.before)},
                                  {"skipped", step.skipped},
                                  {"scale_after", json_number(step.after)}};
    if (!note.empty()) object["note"] = note;
    out_ << (first_ ? "\n    " : ",\n    ") << object.dump();
    first_ = false;
  }
  void end() { out_ << (first_ ? "]\n}\n" : "\n  ]\n}\n"); }

 private:
  std::ostream& out_;
  bool first_ = true;
};

// What was replayed, in one line beside the output.
struct Summary {
  std::uint64_t steps = 0;
  std::uint64_t skipped = 0;
  std::uint64_t growths = 0;
  double first = 0;
  double least = 0;
  double last = 0;

  void add(const ReplayedStep& step) {
    if (steps++ == 0) first = least = step.before;
    skipped += step.skipped ? 1 : 0;
    growths += step.after > step.before ? 1 : 0;
    least = std::min({least, step.before, step.after});
    last = step.after;
  }
  [[nodiscard]] std::string text(const std::string& policy) const {
    return fmt::format("{}: {}, {} skipped ({}), {}, scale {} at first, {} at last, {} at least", policy,
                       text::plural(steps, "step"), text::exact(skipped),
                       text::percent(static_cast<double>(skipped), static_cast<double>(steps)), text::plural(growths, "growth"),
                       text::scale(first), text::scale(last), text::scale(least));
  }
};

template <class Out>
Summary replay(domain::Policy& policy, const std::vector<TraceRow>& rows, Out&& out) {
  Summary summary;
  for (const TraceRow& row : rows) {
    const bool found_inf = row.found_inf > 0;
    ReplayedStep step{row, policy.scale(), found_inf && policy.skips(), 0};
    const std::string fatal = found_inf ? policy.fatal() : std::string();
    step.after = policy.update(found_inf);
    out.step(step, fatal.empty() ? fatal : "raises: " + fatal);
    summary.add(step);
    if (policy.ended()) break;
  }
  out.end();
  return summary;
}

Trace read(const ReplayOptions& options, std::istream& standard_input) {
  const bool policy_given = !options.policy.empty();
  if (options.trace == "-") return read_trace(standard_input, "standard input", policy_given);
  errno = 0;
  std::ifstream file(options.trace);
  if (!file) {
    const std::string why = errno != 0 ? std::generic_category().message(errno) : std::string("it can't be opened");
    throw CallError(fmt::format("{}: {}", Screen::name(options.trace), why), kExitNothing);
  }
  return read_trace(file, options.trace, policy_given);
}

}  // namespace

void replay_trace(const ReplayOptions& options, std::istream& standard_input, const Screen& screen) {
  // What the command line says is checked before anything is read.
  domain::PolicyParameters settings;
  for (const auto* given : {&options.settings, &options.more}) {
    for (const std::string& setting : *given) {
      if (add_setting(settings, setting)) continue;
      throw CallError(fmt::format("{} is not KEY=VALUE with a number as value", Screen::name(setting)), kExitUsage);
    }
  }
  if (!options.policy.empty()) {
    if (const auto why = refusal(options.policy, settings); !why.empty()) throw CallError(why, kExitUsage);
  }
  Trace trace = read(options, standard_input);
  const std::string policy_name = options.policy.empty() ? trace.policy : options.policy;
  if (policy_name.empty()) {
    throw CallError(fmt::format("{} has no '# POLICY parameter=value ...' line before its header: give --policy NAME",
                                Screen::name(options.trace)),
                    kExitUsage);
  }
  for (const auto& [name, value] : settings) trace.parameters[name] = value;
  if (const auto why = refusal(policy_name, trace.parameters); !why.empty()) throw CallError(why, kExitUsage);

  const auto policy = domain::make_policy(policy_name, trace.parameters);
  const Summary summary = screen.json ? replay(*policy, trace.rows, JsonOut(screen.out, policy_name, trace.parameters))
                                      : replay(*policy, trace.rows, CsvOut(screen.out));
  if (screen.err != nullptr) *screen.err << summary.text(Screen::name(policy_name)) << '\n';
}

}  // namespace scalewatch::cli

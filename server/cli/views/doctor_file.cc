// `scalewatch doctor FILE...`: a diagnosis from nothing but a log.
#include <fmt/format.h>

#include <algorithm>
#include <stop_token>
#include <vector>

#include "server/cli/diagnosis_text.h"
#include "server/cli/finding_text.h"
#include "server/cli/text/layout.h"
#include "server/cli/text/units.h"
#include "server/cli/views/log_files.h"
#include "server/cli/views/views.h"
#include "server/logimport/diagnose.h"

namespace scalewatch::cli {

namespace {

ExitCode exit_code(domain::Severity verdict) {
  if (verdict == domain::Severity::kCritical) return kExitCritical;
  return verdict == domain::Severity::kWarning ? kExitWarning : kExitOk;
}

std::string read_text(const DoctorOptions& options, const logimport::LogDoctor& doctor) {
  const auto summary = doctor.summary();
  std::string out = files_text(options.files) + ": ";
  if (summary.lines > 0) out += text::plural(summary.lines, "line") + ", ";
  out += fmt::format("read as {}", summary.format);
  if (doctor.runs() > 1) out += fmt::format(", {} runs", doctor.runs());
  if (summary.lines_cut > 0) out += fmt::format("; {} too long and only begun", text::plural(summary.lines_cut, "line"));
  return out;
}

constexpr std::size_t kMaxParts = 32;  // that are named

// Where findings of "run 2, line 17" are, when there are several files.
void tell_parts(const DoctorOptions& options, const logimport::LogDoctor& doctor, const Screen& screen) {
  if (options.files.size() < 2) return;
  const auto& parts = doctor.parts();
  for (std::size_t i = 0; i < parts.size() && i < kMaxParts; ++i) {
    if (parts[i].file >= options.files.size()) continue;
    const std::string from = parts[i].line > 1 ? fmt::format(" from line {}", text::exact(parts[i].line)) : std::string();
    screen.out << fmt::format("run {}: {}{}{}\n", i + 1, Screen::name(options.files[parts[i].file]), from,
                              i == 0 ? "; a line below that names no run is of this one" : "");
  }
  if (parts.size() > kMaxParts) screen.out << fmt::format("and {} more\n", parts.size() - kMaxParts);
}

// One for each file that has a scale.
std::vector<ScalePlot> plots(const DoctorOptions& options, const logimport::LogDoctor& doctor) {
  const auto& parts = doctor.parts();
  std::vector<ScalePlot> plots(1);
  std::size_t part = 0;
  for (const auto& point : doctor.scale()) {
    std::size_t now = part;
    while (now + 1 < parts.size() && parts[now + 1].first_attempt <= point.first_attempt) ++now;
    if (now != part && parts[now].file != parts[part].file && !plots.back().scale.empty()) plots.emplace_back();
    part = now;
    if (options.files.size() > 1 && part < parts.size() && parts[part].file < options.files.size()) {
      plots.back().title = Screen::name(options.files[parts[part].file]);
    }
    plots.back().scale.push_back({point.first_attempt, point.last_attempt, point.low, point.high, point.skipped});
  }
  return plots;
}

ExitCode tell(const DoctorOptions& options, const logimport::LogDoctor& doctor, const logimport::SourceReport& report,
              const Screen& screen) {
  const auto summary = doctor.summary();
  const auto diagnosis = doctor.diagnosis();
  if (summary.readings == 0 || (diagnosis.facts.attempts == 0 && diagnosis.findings.empty()))
    throw_nothing(options.files, options.format, summary);
  if (screen.json) {
    screen.out << diagnosis_json(diagnosis, summary.format) << '\n';
    return exit_code(diagnosis.verdict);
  }
  screen.out << screen.paint(read_text(options, doctor), text::Style::kDim) << '\n';
  for (const std::string& note : report.notes) screen.out << Screen::name(note) << '\n';
  tell_parts(options, doctor, screen);
  const bool counted =
      std::any_of(doctor.parts().begin(), doctor.parts().end(), [](const logimport::LogPart& part) { return !part.numbered; });
  if (counted && !diagnosis.findings.empty()) {
    const std::string said =
        std::string(doctor.parts().size() > 1 ? "where the log numbers no steps, " : "the log numbers no steps: ") +
        "a step below is the number of its record or skip, from 1";
    screen.say(said);
  }
  print_diagnosis(diagnosis, plots(options, doctor), screen);
  return exit_code(diagnosis.verdict);
}

void tell_news(logimport::LogDoctor& doctor, const Screen& screen) {
  for (const domain::Finding& finding : doctor.take_news()) {
    if (screen.json) {
      screen.out << finding_json_line(finding) << '\n';
    } else {
      print_finding(finding, Detail::kBrief, screen);
    }
  }
  screen.out.flush();
}

}  // namespace

ExitCode diagnose_files(const DoctorOptions& options, std::ostream* progress, const Screen& screen,
                        const std::stop_token& stop) {
  logimport::LogDoctor doctor(options.format);
  const auto report = read_files(
      options.files, options.follow, [&] { tell_news(doctor, screen); }, progress, stop, doctor);
  if (options.follow) tell_news(doctor, screen);
  return tell(options, doctor, report, screen);
}

}  // namespace scalewatch::cli

// `scalewatch doctor FILE...`: a diagnosis from nothing but a log.
#include <fmt/format.h>

#include <stop_token>
#include <vector>

#include "server/cli/diagnosis_text.h"
#include "server/cli/finding_text.h"
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
  if (summary.lines > 0) out += fmt::format("{} lines, ", text::exact(summary.lines));
  out += fmt::format("read as {}", summary.format);
  if (doctor.runs() > 1) out += fmt::format(", {} runs", doctor.runs());
  if (summary.lines_cut > 0) out += fmt::format("; {} lines were too long and only begun", text::exact(summary.lines_cut));
  return out;
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
  std::vector<text::ScaleSample> scale;
  scale.reserve(doctor.scale().size());
  for (const auto& point : doctor.scale()) {
    scale.push_back({point.first_attempt, point.last_attempt, point.low, point.high, point.skipped});
  }
  print_diagnosis(diagnosis, scale, screen);
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

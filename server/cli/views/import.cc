// `scalewatch import FILE --run NAME`: a log goes to the server as a run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stop_token>

#include "server/cli/diagnosis_text.h"
#include "server/cli/log_sender.h"
#include "server/cli/text/units.h"
#include "server/cli/views/log_files.h"
#include "server/cli/views/views.h"

namespace scalewatch::cli {

void import_log(Client& client, const ImportOptions& options, std::ostream* progress, const Screen& screen,
                const std::stop_token& stop) {
  LogSender sender(client, options.run, !options.follow && !options.page);
  logimport::LogDoctor doctor(options.format, {}, [&](const domain::Input& input) { sender.take(input); });
  const auto report = read_files(
      {options.file}, options.follow, [] {}, progress, stop, doctor);
  const auto summary = doctor.summary();
  if (summary.readings == 0 || sender.segment() == 0) throw_nothing({options.file}, options.format, summary);
  const auto diagnosis = doctor.diagnosis();
  if (screen.json) {
    const nlohmann::json out{
        {"run", options.run},          {"run_uid", sender.run_uid()}, {"segment", sender.segment()},
        {"runs", doctor.runs()},       {"format", summary.format},    {"attempts", diagnosis.facts.attempts},
        {"reports", sender.reports()}, {"refused", sender.refused()}, {"verdict", domain::verdict_text(diagnosis.verdict)}};
    screen.out << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  for (const std::string& note : report.notes) screen.out << Screen::name(note) << '\n';
  screen.out << fmt::format("{}: {}, read as {}: segment {} of run {}", files_text({options.file}),
                            text::plural(diagnosis.facts.attempts, "attempt"), summary.format, sender.segment(),
                            Screen::name(options.run));
  if (doctor.runs() > 1) screen.out << fmt::format("; the log holds {} runs, each a segment", doctor.runs());
  if (sender.refused() > 0) screen.out << fmt::format("; the server refused {}", text::plural(sender.refused(), "report"));
  screen.out << fmt::format("\nverdict: {}\n", domain::verdict_text(diagnosis.verdict));
}

}  // namespace scalewatch::cli

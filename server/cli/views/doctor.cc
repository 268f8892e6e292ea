#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/cli/diagnosis_text.h"
#include "server/cli/run_diagnosis.h"
#include "server/cli/run_segment.h"
#include "server/cli/scale_series.h"
#include "server/cli/text/units.h"
#include "server/cli/views/views.h"

namespace scalewatch::cli {

namespace {

constexpr int kMaxScalers = 8;  // drawn; each has a command of its own

std::string scaler_title(const v1::GetScalerHistoryResponse& history) {
  const auto& scaler = history.scaler();
  return fmt::format("scaler {}{}, {} applied, {} skipped", scaler.scaler(),
                     scaler.name().empty() ? "" : " (" + Screen::name(scaler.name()) + ")", text::exact(scaler.applied()),
                     text::exact(scaler.skipped()));
}

}  // namespace

ExitCode diagnose_run(Client& client, const DoctorOptions& options, const Screen& screen) {
  const auto run = get_run_segment(client, options.run, options.segment);
  if (run.run().attempts() == 0 && run.findings().empty()) {
    throw CallError(
        "the run has reported no attempt yet, so there is nothing to diagnose; looked for attempts and findings of " +
            Screen::name(options.run),
        kExitNothing);
  }
  const auto history = read_scaler_if_now(client, run);
  const auto diagnosis = diagnose(run, history);
  if (screen.json) {
    screen.out << diagnosis_json(diagnosis, "server") << '\n';
  } else {
    std::vector<ScalePlot> plots{{scaler_title(history), scale_samples(history)}};
    for (int i = 1; i < std::min(kMaxScalers, run.scalers_size()); ++i) {
      const auto more = read_scaler_if_now(client, run, run.scalers(i).scaler());
      plots.push_back({scaler_title(more), scale_samples(more)});
    }
    if (run.scalers_size() == 1) plots.front().title.clear();
    print_diagnosis(diagnosis, plots, screen);
    if (run.scalers_size() > kMaxScalers) {
      screen.out << '\n'
                 << text::plural(static_cast<std::uint64_t>(run.scalers_size() - kMaxScalers), "more scaler")
                 << ": `scalewatch scaler RUN --scaler N` shows each.\n";
    }
  }
  if (diagnosis.verdict == domain::Severity::kCritical) return kExitCritical;
  return diagnosis.verdict == domain::Severity::kWarning ? kExitWarning : kExitOk;
}

}  // namespace scalewatch::cli

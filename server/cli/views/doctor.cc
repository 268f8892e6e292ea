#include "server/cli/diagnosis_text.h"
#include "server/cli/run_diagnosis.h"
#include "server/cli/scale_series.h"
#include "server/cli/views/views.h"

namespace scalewatch::cli {

ExitCode diagnose_run(Client& client, const DoctorOptions& options, const Screen& screen) {
  v1::GetRunRequest request;
  request.set_run(options.run);
  const auto run = client.get_run(request);
  if (run.run().attempts() == 0 && run.findings().empty()) {
    throw CallError(
        "the run has reported no attempt yet, so there is nothing to diagnose; looked for attempts and findings of " +
            Screen::name(options.run),
        kExitNothing);
  }
  const auto history = read_scaler(client, run);
  const auto diagnosis = diagnose(run, history);
  if (screen.json) {
    screen.out << diagnosis_json(diagnosis, "server") << '\n';
  } else {
    print_diagnosis(diagnosis, scale_samples(history), screen);
  }
  if (diagnosis.verdict == domain::Severity::kCritical) return kExitCritical;
  return diagnosis.verdict == domain::Severity::kWarning ? kExitWarning : kExitOk;
}

}  // namespace scalewatch::cli

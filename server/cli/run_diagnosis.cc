#include "server/cli/run_diagnosis.h"

#include <cmath>
#include <utility>
#include <vector>

#include "server/cli/convert.h"

namespace scalewatch::cli {

namespace {

// Every scale that a point tells of, oldest first.
std::vector<double> scales_of(const v1::ScalerPoint& point) {
  std::vector<double> out;
  if (point.has_scale_before()) out.push_back(point.scale_before());
  if (point.has_scale_min()) out.push_back(point.scale_min());
  if (point.has_scale_after()) out.push_back(point.scale_after());
  return out;
}

domain::RunFacts facts_of(const v1::RunSummary& run, const v1::GetScalerHistoryResponse& history) {
  domain::RunFacts out;
  out.attempts = run.attempts();
  out.applied = run.applied();
  out.skipped = run.skipped();
  out.partial = run.partial();
  for (const auto& point : history.points()) {
    for (const double scale : scales_of(point)) {
      if (!out.scale_first) out.scale_first = scale;
      out.scale_last = scale;
      // A NaN is the last value at most, never the least.
      out.scale_min = out.scale_min ? std::fmin(*out.scale_min, scale) : scale;
    }
  }
  return out;
}

}  // namespace

v1::GetScalerHistoryResponse read_scaler(Client& client, const v1::GetRunResponse& run, std::optional<std::uint32_t> scaler) {
  v1::GetScalerHistoryRequest request;
  request.set_run(run.run().run_uid());
  request.mutable_range()->set_segment(run.run().segment());
  request.set_scaler(scaler ? *scaler : run.scalers().empty() ? 0 : run.scalers(0).scaler());
  try {
    return client.get_scaler_history(request);
  } catch (const CallError&) {
    if (!run.scalers().empty()) throw;
    return {};
  }
}

v1::GetScalerHistoryResponse read_scaler_if_now(Client& client, const v1::GetRunResponse& run,
                                                std::optional<std::uint32_t> scaler) {
  try {
    return read_scaler(client, run, scaler);
  } catch (const CallError& error) {
    if (!error.not_now()) throw;
    client.note(std::string("the scale's history is left out: ") + error.what());
    return {};
  }
}

domain::Diagnosis diagnose(const v1::GetRunResponse& run, const v1::GetScalerHistoryResponse& history) {
  std::vector<domain::Finding> findings;
  for (const auto& finding : run.findings()) {
    if (finding.segment() == run.run().segment()) findings.push_back(from_proto(finding));
  }
  return domain::diagnose(facts_of(run.run(), history), std::move(findings));
}

}  // namespace scalewatch::cli

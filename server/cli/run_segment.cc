#include "server/cli/run_segment.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/cli/attempts.h"
#include "server/cli/run_diagnosis.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

namespace {

// What was in force and what happened, from the segment's own history.
void fill_scaler(v1::ScalerSummary& scaler, const v1::GetScalerHistoryResponse& history, v1::RunSummary* run) {
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t partial = 0;
  scaler.clear_scale();
  scaler.clear_growth_tracker();
  for (const auto& point : history.points()) {
    applied += point.applied();
    skipped += point.skipped();
    partial += point.partial();
    if (point.has_scale_after()) scaler.set_scale(point.scale_after());
  }
  scaler.set_applied(applied);
  scaler.set_skipped(skipped);
  scaler.set_growths(0);
  scaler.set_consecutive_skips(0);
  scaler.set_calibrating(applied == 0);
  scaler.set_skip_ratio(0);
  if (run == nullptr) return;
  run->set_applied(applied);
  run->set_skipped(skipped);
  run->set_partial(partial);
  if (scaler.has_scale()) run->set_scale(scaler.scale());
}

}  // namespace

v1::GetRunResponse get_run_segment(Client& client, const std::string& run, std::uint32_t segment) {
  v1::GetRunRequest request;
  request.set_run(run);
  auto out = client.get_run(request);
  auto& summary = *out.mutable_run();
  if (segment == 0 || segment == summary.segment()) return out;
  const auto stored = std::find_if(out.segments().begin(), out.segments().end(),
                                   [&](const v1::SegmentSummary& s) { return s.segment() == segment; });
  if (stored == out.segments().end()) {
    throw CallError(fmt::format("{} has no segment {}: its newest is {}", Screen::name(run), segment, summary.segment()),
                    kExitNothing, CallError::Kind::kNotFound);
  }
  summary.set_segment(segment);
  summary.set_attempts(stored->attempts());
  summary.set_applied(0);
  summary.set_skipped(0);
  summary.set_partial(0);
  summary.set_last_step(0);
  summary.clear_scale();
  summary.clear_loss();
  summary.set_last_report_ms(0);
  summary.set_status(v1::RUN_STATUS_FINISHED);
  summary.set_ranks_connected(0);
  summary.set_lost_reports(0);
  summary.set_thinned_reports(0);
  summary.set_worst_open(v1::SEVERITY_UNSPECIFIED);
  summary.set_worst(v1::SEVERITY_UNSPECIFIED);
  out.clear_ranks();
  out.clear_optimizers();
  if (const auto newest = newest_attempt(client, summary.run_uid(), segment)) {
    summary.set_last_step(newest->step());
    summary.set_last_report_ms(newest->time_ms());
    if (newest->has_loss()) summary.set_loss(newest->loss());
  }
  for (int i = 0; i < out.scalers_size(); ++i) {
    auto& scaler = *out.mutable_scalers(i);
    fill_scaler(scaler, read_scaler(client, out, scaler.scaler()), i == 0 ? &summary : nullptr);
  }
  auto& findings = *out.mutable_findings();
  findings.erase(std::remove_if(findings.begin(), findings.end(),
                                [&](const v1::Finding& finding) { return finding.segment() != segment; }),
                 findings.end());
  std::uint32_t open = 0;
  for (const auto& finding : findings) {
    open += finding.open() ? 1 : 0;
    summary.set_worst(std::max(summary.worst(), finding.severity()));
    if (finding.open()) summary.set_worst_open(std::max(summary.worst_open(), finding.severity()));
  }
  summary.set_open_findings(open);
  return out;
}

}  // namespace scalewatch::cli

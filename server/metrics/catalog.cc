#include "server/metrics/catalog.h"

#include <fmt/format.h>

#include <string_view>

#include "server/engine/latency.h"

namespace scalewatch::metrics {
namespace {

using enum Type;

constexpr std::array<Metric, static_cast<std::size_t>(Id::kCount)> kMetrics = {{
    {Id::kRunInfo, "scalewatch_run_info", kGauge, "", "run,run_uid,framework,dtype,world_size,policy",
     "What a run is; always 1."},
    {Id::kRunLabels, "scalewatch_run_labels", kGauge, "", "run,label_*",
     "The labels that the run's user gave it; always 1. Characters that a label's name can't have are _."},
    {Id::kRunStatus, "scalewatch_run_status", kGauge, "", "run,status",
     "1 for what the run is now, else 0: running, finished (every rank said goodbye) or lost (they went without)."},
    {Id::kRunSegment, "scalewatch_run_segment", kGauge, "", "run",
     "Number of the run's newest segment; one more a restart of all its ranks."},
    {Id::kLastReport, "scalewatch_last_report_timestamp_seconds", kGauge, "seconds", "run",
     "When the run's last report arrived, server's clock, Unix time; 0 before the first."},
    {Id::kLastStep, "scalewatch_last_step", kGauge, "", "run",
     "The trainer's own number of the newest step; may repeat or go back."},
    {Id::kAttempts, "scalewatch_attempts_total", kCounter, "attempts", "run,outcome",
     "Closed attempts of the run's newest segment, by outcome (applied, skipped, partial); starts again with a segment."},
    {Id::kSkips, "scalewatch_skips_total", kCounter, "attempts", "run,reason",
     "Closed attempts that were skipped, by what was non-finite first in the order that values flow: parameter (buffers and "
     "optimizer state too), input, loss, activation, activation_gradient, gradient, or unknown (no tensor was measured so). "
     "Starts again with a segment."},
    {Id::kNonFiniteApplied, "scalewatch_non_finite_applied_attempts_total", kCounter, "attempts", "run",
     "Attempts that were applied although a gradient was non-finite. Starts again with a segment."},
    {Id::kLoss, "scalewatch_loss", kGauge, "", "run", "Newest loss of the run; NaN and infinities are kept."},
    {Id::kGradientNorm, "scalewatch_gradient_norm", kGauge, "", "run",
     "Newest gradient norm that the trainer told, as it told it; absent when it tells none."},
    {Id::kRanks, "scalewatch_ranks", kGauge, "ranks", "run", "Ranks that the run has (its world size)."},
    {Id::kRanksConnected, "scalewatch_ranks_connected", kGauge, "ranks", "run", "Ranks of the run that are connected now."},
    {Id::kRanksFinished, "scalewatch_ranks_finished", kGauge, "ranks", "run", "Ranks of the newest segment that said goodbye."},
    {Id::kFindings, "scalewatch_findings_open", kGauge, "findings", "run,severity",
     "Open findings of the run, by severity (info, warning, critical)."},
    {Id::kRuleFindings, "scalewatch_rule_findings_open", kGauge, "findings", "run,rule,severity",
     "Open findings of the run, by rule and severity; absent while there are none."},

    {Id::kScale, "scalewatch_scaler_scale", kGauge, "", "run,scaler", "Newest loss scale."},
    {Id::kScaleFloor, "scalewatch_scaler_scale_floor", kGauge, "", "run,scaler",
     "Scale that the scaler's policy never goes below; absent when nothing stops it."},
    {Id::kGrowthTracker, "scalewatch_scaler_growth_tracker", kGauge, "attempts", "run,scaler",
     "Clean attempts since the scale last changed; absent when the scaler keeps no such count."},
    {Id::kHysteresis, "scalewatch_scaler_hysteresis", kGauge, "attempts", "run,scaler",
     "Overflows that are left before the scale falls, as the scaler told it; absent when it has no hysteresis."},
    {Id::kConsecutiveSkips, "scalewatch_scaler_consecutive_skips", kGauge, "attempts", "run,scaler",
     "Attempts skipped in a row up to now."},
    {Id::kSkipRatio, "scalewatch_scaler_skip_ratio", kGauge, "ratio", "run,scaler",
     "Share of skipped attempts among the newest 200 at most, since the first one was applied."},
    {Id::kCalibrating, "scalewatch_scaler_calibrating", kGauge, "", "run,scaler",
     "1 until the first attempt is applied, then 0."},
    {Id::kScalerAttempts, "scalewatch_scaler_attempts_total", kCounter, "attempts", "run,scaler,outcome",
     "Attempts of the scaler in the run's newest segment, by outcome (applied, skipped)."},
    {Id::kGrowths, "scalewatch_scaler_growths_total", kCounter, "", "run,scaler",
     "Times that the scale grew in the run's newest segment."},

    {Id::kHeadroom, "scalewatch_headroom_octaves", kGauge, "octaves", "run,role",
     "Least headroom of any tensor of the role when the role was last measured: log2(largest finite value of the format / "
     "largest magnitude), of values as they were stored, so of gradients under the loss scale. Masks (elements equal to the "
     "format's largest value) are left out."},
    {Id::kUnderflow, "scalewatch_underflow_ratio", kGauge, "ratio", "run,role",
     "Share of the role's non-zero elements that the computation's format holds only as subnormals, or not at all, when the "
     "role "
     "was last measured; tensors with NaN or Inf aside. Of gradients in a narrow format that is what they are stored as, under "
     "the "
     "loss scale (`scalewatch top RUN --by underflow` tells what would be lost without one). Of others under a loss scale and "
     "without a histogram, a lower bound."},
    {Id::kWorstUnderflow, "scalewatch_worst_underflow_ratio", kGauge, "ratio", "run,role",
     "The same share of the one tensor of the role for which it is largest."},
    {Id::kNonFiniteElements, "scalewatch_non_finite_elements_total", kCounter, "elements", "run,role",
     "NaN and infinite elements that ranks reported, by role; -Inf in an activation that had such a mask from the start is "
     "left "
     "out. Of more than 64 such tensors in a report, the first 64 in the order that values flow. Starts again with a segment."},
    {Id::kNonFiniteAttempts, "scalewatch_non_finite_attempts_total", kCounter, "attempts", "run,role",
     "Attempts at which some rank had a non-finite tensor of the role, or a non-finite loss (role loss). Starts again with a "
     "segment."},
    {Id::kTensorHeadroom, "scalewatch_tensor_headroom_octaves", kGauge, "octaves", "run,tensor,role",
     "Headroom of the metrics.top_tensors tensors that have the least, when each was last measured. A tensor takes the place "
     "of "
     "another only when it has an octave less, so that the set stays calm."},

    {Id::kReportsLost, "scalewatch_reports_lost_total", kCounter, "reports", "run",
     "Reports of the run's newest segment that its clients announced as lost."},
    {Id::kLostByCause, "scalewatch_run_lost_reports_total", kCounter, "reports", "run,cause",
     "Reports of the run's newest segment that never come, by cause; causes that never came are absent."},
    {Id::kThinnedByCause, "scalewatch_run_thinned_reports_total", kCounter, "reports", "run,cause",
     "Reports of the run's newest segment that came without their full statistics, by cause; as above."},
    {Id::kTrainerSeconds, "scalewatch_client_trainer_thread_seconds_total", kCounter, "seconds", "run",
     "Time that monitoring took on the trainers' threads, passes over host data excluded; all ranks, starts again with a "
     "client."},
    {Id::kMeasureSeconds, "scalewatch_client_measure_seconds_total", kCounter, "seconds", "run",
     "Time of passes over host data; all ranks, starts again with a client."},
    {Id::kClientSeconds, "scalewatch_client_thread_seconds_total", kCounter, "seconds", "run",
     "Processor time of the clients' own threads; all ranks, starts again with a client."},
    {Id::kGpuSeconds, "scalewatch_client_gpu_seconds_total", kCounter, "seconds", "run",
     "GPU time of the clients' kernels; all ranks, starts again with a client."},
    {Id::kDriverCalls, "scalewatch_client_cuda_driver_calls_total", kCounter, "calls", "run",
     "Calls of CUDA's driver that monitoring made on the trainers' threads; all ranks, starts again with a client."},
    {Id::kBuffered, "scalewatch_client_buffered_bytes", kGauge, "bytes", "run",
     "Held in memory by the run's clients for resending."},
    {Id::kSpooled, "scalewatch_client_spooled_bytes", kGauge, "bytes", "run",
     "Held on disk by the run's clients for resending."},

    {Id::kRuns, "scalewatch_runs", kGauge, "runs", "", "Runs on this page."},
    {Id::kRunsLeftOut, "scalewatch_runs_left_out", kGauge, "runs", "", "Runs that metrics.max_runs keeps off this page."},
    {Id::kScalersLeftOut, "scalewatch_scalers_left_out", kGauge, "scalers", "",
     "Scalers that metrics.max_scalers_per_run keeps off this page."},
    {Id::kScrapes, "scalewatch_scrapes_total", kCounter, "scrapes", "", "Times that this page was asked for."},

    {Id::kIngestReports, "scalewatch_ingest_reports_total", kCounter, "reports", "", "Reports taken in."},
    {Id::kIngestRecords, "scalewatch_ingest_records_total", kCounter, "records", "", "Tensor records taken in."},
    {Id::kIngestRepeated, "scalewatch_ingest_reports_repeated_total", kCounter, "reports", "",
     "Reports that had been taken in before."},
    {Id::kIngestRejected, "scalewatch_ingest_reports_rejected_total", kCounter, "reports", "", "Reports refused as malformed."},
    {Id::kIngestLost, "scalewatch_ingest_reports_lost_total", kCounter, "reports", "",
     "Reports that clients announced as lost."},
    {Id::kIngestThinned, "scalewatch_ingest_reports_thinned_total", kCounter, "reports", "",
     "Reports that came without their full statistics."},
    {Id::kIngestLate, "scalewatch_ingest_reports_late_total", kCounter, "reports", "",
     "Reports that came after their attempt had closed."},
    {Id::kStreamsFenced, "scalewatch_ingest_streams_fenced_total", kCounter, "streams", "",
     "Streams ended because a newer client of their rank came."},
    {Id::kStreamsOpen, "scalewatch_ingest_streams_open", kGauge, "streams", "", "Streams that are open now."},
    {Id::kQueuedBytes, "scalewatch_ingest_queued_bytes", kGauge, "bytes", "", "Taken from clients and not yet durable."},
    {Id::kQueueLimit, "scalewatch_ingest_queue_limit_bytes", kGauge, "bytes", "",
     "engine.total_queue: no stream is read beyond this much that is not durable."},
    {Id::kLag, "scalewatch_ingest_lag_seconds", kGauge, "seconds", "",
     "Age of the oldest report that is not durable, but for runs that the store refuses alone; 0 = none waits."},

    {Id::kCommits, "scalewatch_history_commits_total", kCounter, "transactions", "", "Transactions committed."},
    {Id::kCommitErrors, "scalewatch_history_commit_errors_total", kCounter, "transactions", "",
     "Transactions that the store refused."},
    {Id::kCommitDuration, "scalewatch_history_commit_duration_seconds", kHistogram, "seconds", "",
     "What a transaction took in the store, until it was durable or refused."},
    {Id::kCommittedBytes, "scalewatch_history_committed_bytes_total", kCounter, "bytes", "", "Payload committed."},
    {Id::kDegraded, "scalewatch_history_degraded", kGauge, "", "",
     "1 while the store takes no run's history, else 0; a run that is refused alone has a finding."},
    {Id::kHistorySize, "scalewatch_history_size_bytes", kGauge, "bytes", "file",
     "Size of the history: database, and wal (committed, not in the database yet)."},
    {Id::kDiskFree, "scalewatch_history_disk_free_bytes", kGauge, "bytes", "", "Free for scalewatchd on the disk of data_dir."},
    {Id::kBallast, "scalewatch_history_ballast_bytes", kGauge, "bytes", "",
     "Room on the disk that is kept for alerts and given up when it is full; 0 once it was given up, or could not be had."},
    {Id::kBallastWanted, "scalewatch_history_ballast_wanted_bytes", kGauge, "bytes", "",
     "How much room is to be kept so; 0 = none."},
    {Id::kRunHistory, "scalewatch_run_history_bytes", kGauge, "bytes", "run",
     "What the stored statistics of a run take, as of the newest look (once a minute); absent without history.max_run_size, "
     "and for runs "
     "that are pinned."},
    {Id::kRunHistoryLimit, "scalewatch_run_history_limit_bytes", kGauge, "bytes", "",
     "history.max_run_size: of what a run takes beyond it the oldest attempts keep only summaries; absent when there is no "
     "limit."},
    {Id::kPageCacheReads, "scalewatch_history_page_cache_reads_total", kCounter, "pages", "result",
     "Pages of the database that queries asked for, by where they were: hit (in the readers' cache) or miss (read)."},
    {Id::kCommitsLost, "scalewatch_history_commits_lost_total", kCounter, "transactions", "",
     "Transactions that had been durable and were gone when a server started (files removed, damaged or put back), since the "
     "store was made."},
    {Id::kSharedReachable, "scalewatch_shared_history_reachable", kGauge, "", "",
     "1 while the shared history (ClickHouse) takes what is sent, else 0; this and the next ones are absent without one."},
    {Id::kSharedThinning, "scalewatch_shared_history_thinning", kGauge, "", "",
     "1 while more waits for the shared history than is kept for it: the oldest records thin out to summaries."},
    {Id::kSharedLag, "scalewatch_shared_history_lag_seconds", kGauge, "seconds", "",
     "Age of the oldest commit that is not in the shared history; 0 = all is there."},
    {Id::kSharedLagBytes, "scalewatch_shared_history_lag_bytes", kGauge, "bytes", "",
     "Payload that waits for the shared history, of what came since this server began."},
    {Id::kSharedBatches, "scalewatch_shared_history_batches_total", kCounter, "batches", "",
     "Batches that the shared history took."},
    {Id::kSharedRecords, "scalewatch_shared_history_records_total", kCounter, "records", "", "Records in these batches."},
    {Id::kSharedErrors, "scalewatch_shared_history_errors_total", kCounter, "tries", "",
     "Tries to reach the shared history that failed; what they were to bring is sent again."},
    {Id::kFleetServers, "scalewatch_fleet_servers", kGauge, "servers", "state",
     "Other servers of the fleet that this one sees (there) and does not see (gone); this and the next ones are absent where "
     "it is "
     "alone."},
    {Id::kFleetMoved, "scalewatch_fleet_moved_clients_total", kCounter, "clients", "",
     "Clients that came here and were sent to the server that has their run."},
    {Id::kFleetTakenOver, "scalewatch_fleet_runs_taken_over_total", kCounter, "runs", "",
     "Runs that another server had, brought here from the shared history."},
    {Id::kFleetYielded, "scalewatch_fleet_runs_yielded_total", kCounter, "runs", "",
     "Runs that were with two servers at once (a network that parts them, a server that came back) and were given up here."},

    {Id::kDeliveries, "scalewatch_alert_deliveries_total", kCounter, "notices", "sink,result",
     "Notices and tries by sink and result: delivered, failed (a try that is made again), dropped (given up)."},
    {Id::kDeliveriesPending, "scalewatch_alert_deliveries_pending", kGauge, "notices", "sink",
     "Notices that wait for their delivery to a sink."},
    {Id::kDeliveryOldest, "scalewatch_alert_delivery_oldest_seconds", kGauge, "seconds", "sink",
     "Age of the oldest notice that waits for its delivery to a sink; 0 = none waits."},
    {Id::kAlertRequests, "scalewatch_alert_requests_total", kCounter, "requests", "sink",
     "Requests to a sink, answered or not."},
    {Id::kAlertRequestSeconds, "scalewatch_alert_request_seconds_total", kCounter, "seconds", "sink",
     "What these requests took in all."},
    {Id::kReminders, "scalewatch_alert_reminders_total", kCounter, "requests", "sink",
     "Requests that sent open alerts again and were taken."},
    {Id::kWatchdogs, "scalewatch_alert_watchdogs_total", kCounter, "requests", "sink",
     "Times that the sink took the Watchdog, which says that alerts would get through."},
    {Id::kDeadLetters, "scalewatch_alert_dead_letters", kGauge, "notices", "sink",
     "Notices given up within the last 30 days that can be replayed."},
    {Id::kUnreadableAlerts, "scalewatch_alerts_unreadable", kGauge, "alerts", "",
     "Stored alerts met since the server began whose bytes are no alert, at most 10,000: they are left out, and who was told "
     "of "
     "them is not known."},

    {Id::kRefusals, "scalewatch_refusals_total", kCounter, "", "cause",
     "Callers, streams, messages and requests turned away, by cause: no_token, wrong_token, locked_out, scope, ended (what "
     "went "
     "on when its token was revoked), no_hello, slow_reader, request (of HTTP: none, too large, or not whole in time), and "
     "limits of a token or of all: streams, runs, tensors, message, records_per_second, bytes_per_day, queries, connections."},
    {Id::kSlowed, "scalewatch_ingest_slowed_total", kCounter, "messages", "",
     "Messages after which a stream was read later, because a limit of records a second was reached."},
    {Id::kRpcs, "scalewatch_rpcs_total", kCounter, "calls", "method,code", "Calls of the gRPC API that ended, by status code."},
    {Id::kRpcDuration, "scalewatch_rpc_duration_seconds", kHistogram, "seconds", "method",
     "What calls of the gRPC API with one answer took; streams are not among them."},
    {Id::kHttpRequests, "scalewatch_http_requests_total", kCounter, "requests", "route,code",
     "HTTP requests that were answered, by route and status; the route is none for what is not served."},
    {Id::kHttpDuration, "scalewatch_http_request_duration_seconds", kHistogram, "seconds", "route",
     "What HTTP requests took, from the request's arrival in whole until its answer was there to be sent; waiting for a thread "
     "is "
     "part of it."},

    {Id::kReloads, "scalewatch_config_reloads_total", kCounter, "reloads", "result",
     "Times that the configuration was to be read again: taken, or refused (all stayed as it was)."},
    {Id::kReloadSuccessful, "scalewatch_config_last_reload_successful", kGauge, "", "",
     "1 when the newest reload was taken, else 0; the start counts as one."},
    {Id::kReloadSuccess, "scalewatch_config_last_reload_success_timestamp_seconds", kGauge, "seconds", "",
     "When the newest reload that was taken was, server's clock, Unix time."},

    {Id::kBuildInfo, "scalewatch_build_info", kGauge, "", "version", "Version of the server; always 1."},
    {Id::kStartTime, "process_start_time_seconds", kGauge, "seconds", "", "Start of the process, Unix time."},
    {Id::kResidentMemory, "process_resident_memory_bytes", kGauge, "bytes", "", "Resident memory."},
    {Id::kVirtualMemory, "process_virtual_memory_bytes", kGauge, "bytes", "", "Virtual memory."},
    {Id::kThreads, "process_threads", kGauge, "threads", "", "Threads."},
    {Id::kCpuSeconds, "process_cpu_seconds_total", kCounter, "seconds", "", "User and system CPU time."},
    {Id::kOpenFds, "process_open_fds", kGauge, "descriptors", "", "Open file descriptors."},
    {Id::kMaxFds, "process_max_fds", kGauge, "descriptors", "", "Limit of open file descriptors."},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    if (kMetrics.at(i).id != static_cast<Id>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "kMetrics lists the metrics in the order of Id");

struct Section {
  Id first;
  const char* title;
  const char* text;
};
constexpr std::array<Section, 9> kSections = {{
    {Id::kRunInfo, "Runs", "One series a run, but for the labels named."},
    {Id::kScale, "Scalers", "`scaler` is the scaler's name, or its number; at most `metrics.max_scalers_per_run` of a run."},
    {Id::kHeadroom, "Numerics",
     "`role` is gradient, parameter, activation, activation_gradient, optimizer_state or buffer. Roles that were never "
     "measured "
     "are absent. A rank's values are looked at four times a second at most; where ranks differ, the worst is shown."},
    {Id::kReportsLost, "Clients",
     "Summed over the ranks of a run. `cause` is buffer_full, queue_full, too_large, rejected, internal, reconnect, "
     "spool_limit, "
     "device or store."},
    {Id::kRuns, "The page", ""},
    {Id::kIngestReports, "Ingest", ""},
    {Id::kCommits, "History", ""},
    {Id::kDeliveries, "Alerting", "`sink` is the sink's name in the configuration."},
    {Id::kRefusals, "Calls and process",
     "`method` is the service's and the call's name, such as History/ListRuns; `route` the path's pattern, such as "
     "/api/v1/runs/{run}/top."},
}};

constexpr const char* kBegin = R"(# Metrics

`scalewatchd` serves these on `http://HOST:9464/metrics` in Prometheus' text format. This page is printed by
`scalewatchd --metrics-reference`; a test holds it against the code.

Counters end in `_total` and start again from 0 where their text says so, those of the server and of sinks when it starts or a sink is configured anew: `rate()`
and `increase()` know how to read that. A value
that is not known is absent, never 0. What is not a plain number has its unit in its name.

**How many series.** At most `metrics.max_runs` runs are on the page: those with the worst open finding first, then the newest.
`scalewatch_runs_left_out` counts the others. An ended run stays for `metrics.finished_for`, over restarts of the server too. A run has at most 36 series, 10 for each of its `metrics.max_scalers_per_run` scalers, one for each of its `metrics.top_tensors` tensors, 5
for each of 6 roles, 1 for its loss, 2 for each of 9 causes of losses, and one for each rule and severity with an open finding.
)";

std::string labels_text(std::string_view labels) {
  std::string out;
  while (!labels.empty()) {
    const auto comma = labels.find(',');
    out += fmt::format("{}`{}`", out.empty() ? "" : ", ", labels.substr(0, comma));
    labels = comma == std::string_view::npos ? std::string_view() : labels.substr(comma + 1);
  }
  return out;
}

}  // namespace

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kCounter:
      return "counter";
    case Type::kGauge:
      return "gauge";
    case Type::kHistogram:
      return "histogram";
  }
  return "";
}

const Metric& metric(Id id) {
  return kMetrics.at(static_cast<std::size_t>(id));
}

std::string reference() {
  std::string out = kBegin;
  auto section = kSections.begin();
  for (const Metric& each : kMetrics) {
    if (section != kSections.end() && each.id == section->first) {
      out += fmt::format("\n## {}\n", section->title);
      if (*section->text != '\0') out += fmt::format("\n{}\n", section->text);
      out += "\n| name | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n";
      ++section;
    }
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", each.name, type_name(each.type), each.unit, labels_text(each.labels),
                       each.help);
  }
  out += "\nBuckets of the histograms, seconds:";
  for (const double bound : engine::LatencyHistogram::kBounds) out += fmt::format(" {}", bound);
  out += ".\n";
  return out;
}

}  // namespace scalewatch::metrics

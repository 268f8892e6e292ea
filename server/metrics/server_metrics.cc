#include "server/metrics/server_metrics.h"

namespace scalewatch::metrics {

void add_engine_metrics(const engine::EngineStats& stats, Families& families) {
  const auto counter = [&](const char* name, const char* help, auto value) {
    families.counter(name, help).add({}, static_cast<double>(value));
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    families.gauge(name, help).add({}, static_cast<double>(value));
  };
  counter("scalewatch_ingest_reports_total", "Reports taken in.", stats.reports);
  counter("scalewatch_ingest_records_total", "Tensor records taken in.", stats.records);
  counter("scalewatch_ingest_reports_repeated_total", "Reports that had been taken in before.", stats.reports_repeated);
  counter("scalewatch_ingest_reports_rejected_total", "Reports refused as malformed.", stats.reports_rejected);
  counter("scalewatch_ingest_reports_lost_total", "Reports that clients announced as lost.", stats.reports_lost);
  counter("scalewatch_ingest_reports_thinned_total", "Reports that came without their full statistics.", stats.reports_thinned);
  counter("scalewatch_ingest_reports_late_total", "Reports that came after their attempt had closed.", stats.reports_late);
  counter("scalewatch_ingest_streams_fenced_total", "Streams ended because a newer client of their rank came.",
          stats.streams_fenced);
  gauge("scalewatch_ingest_streams_open", "Streams that are open now.", stats.streams_open);
  gauge("scalewatch_ingest_queued_bytes", "Taken from clients and not yet durable.", stats.queued_bytes);
  gauge("scalewatch_ingest_lag_seconds", "Age of the oldest report that is not durable.", stats.lag_seconds);
  counter("scalewatch_history_commits_total", "Transactions committed.", stats.commits);
  counter("scalewatch_history_commit_errors_total", "Transactions that the store refused.", stats.commit_errors);
  counter("scalewatch_history_commit_seconds_total", "Time spent committing.", stats.commit_seconds);
  counter("scalewatch_history_committed_bytes_total", "Payload committed.", stats.committed_bytes);
  gauge("scalewatch_history_degraded", "1 while the store refuses commits, else 0.", stats.history_degraded ? 1 : 0);
}

void add_sink_metrics(const std::vector<SinkSample>& sinks, Families& families) {
  Family& deliveries =
      families.counter("scalewatch_alert_deliveries_total",
                       "Tries to deliver an alert to a sink: delivered, failed (tried again), dropped (given up).");
  Family& pending = families.gauge("scalewatch_alert_deliveries_pending", "Alerts that wait for their delivery to a sink.");
  for (const SinkSample& sink : sinks) {
    deliveries.add({{"sink", sink.sink}, {"result", "delivered"}}, static_cast<double>(sink.delivered));
    deliveries.add({{"sink", sink.sink}, {"result", "failed"}}, static_cast<double>(sink.failed));
    deliveries.add({{"sink", sink.sink}, {"result", "dropped"}}, static_cast<double>(sink.dropped));
    pending.add({{"sink", sink.sink}}, static_cast<double>(sink.pending));
  }
}

}  // namespace scalewatch::metrics

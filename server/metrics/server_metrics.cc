#include "server/metrics/server_metrics.h"

namespace scalewatch::metrics {

void add_engine_metrics(const engine::EngineStats& stats, Page& page) {
  const auto put = [&](Id id, auto value) { page.add(id, {}, static_cast<double>(value)); };
  put(Id::kIngestReports, stats.reports);
  put(Id::kIngestRecords, stats.records);
  put(Id::kIngestRepeated, stats.reports_repeated);
  put(Id::kIngestRejected, stats.reports_rejected);
  put(Id::kIngestLost, stats.reports_lost);
  put(Id::kIngestThinned, stats.reports_thinned);
  put(Id::kIngestLate, stats.reports_late);
  put(Id::kStreamsFenced, stats.streams_fenced);
  put(Id::kStreamsOpen, stats.streams_open);
  put(Id::kQueuedBytes, stats.queued_bytes);
  put(Id::kQueueLimit, stats.queue_limit);
  put(Id::kLag, stats.lag_seconds);
  put(Id::kCommits, stats.commits);
  put(Id::kCommitErrors, stats.commit_errors);
  page.add_histogram(Id::kCommitDuration, {}, engine::LatencyHistogram::kBounds, stats.commit_durations.counts,
                     stats.commit_durations.sum);
  put(Id::kCommittedBytes, stats.committed_bytes);
  put(Id::kDegraded, stats.history_degraded ? 1 : 0);
}

void add_store_metrics(const StoreSample& store, Page& page) {
  if (store.database_bytes) page.add(Id::kHistorySize, {"database"}, static_cast<double>(*store.database_bytes));
  if (store.wal_bytes) page.add(Id::kHistorySize, {"wal"}, static_cast<double>(*store.wal_bytes));
  if (store.disk_free_bytes) page.add(Id::kDiskFree, {}, static_cast<double>(*store.disk_free_bytes));
  page.add(Id::kPageCacheReads, {"hit"}, static_cast<double>(store.cache_hits));
  page.add(Id::kPageCacheReads, {"miss"}, static_cast<double>(store.cache_misses));
  page.add(Id::kCommitsLost, {}, static_cast<double>(store.commits_lost));
  page.add(Id::kBallast, {}, static_cast<double>(store.ballast_bytes));
  page.add(Id::kBallastWanted, {}, static_cast<double>(store.ballast_wanted));
  if (store.run_limit_bytes) page.add(Id::kRunHistoryLimit, {}, static_cast<double>(*store.run_limit_bytes));
  if (!store.shared) return;
  page.add(Id::kSharedReachable, {}, store.shared->reachable ? 1 : 0);
  page.add(Id::kSharedThinning, {}, store.shared->thinning ? 1 : 0);
  page.add(Id::kSharedLag, {}, store.shared->lag_seconds);
  page.add(Id::kSharedLagBytes, {}, static_cast<double>(store.shared->lag_bytes));
  page.add(Id::kSharedBatches, {}, static_cast<double>(store.shared->batches));
  page.add(Id::kSharedRecords, {}, static_cast<double>(store.shared->records));
  page.add(Id::kSharedErrors, {}, static_cast<double>(store.shared->errors));
}

void add_sink_metrics(const std::vector<SinkSample>& sinks, Page& page) {
  for (const SinkSample& sink : sinks) {
    page.add(Id::kDeliveries, {sink.sink, "delivered"}, static_cast<double>(sink.delivered));
    page.add(Id::kDeliveries, {sink.sink, "failed"}, static_cast<double>(sink.failed));
    page.add(Id::kDeliveries, {sink.sink, "dropped"}, static_cast<double>(sink.dropped));
    page.add(Id::kDeliveriesPending, {sink.sink}, static_cast<double>(sink.pending));
    page.add(Id::kDeliveryOldest, {sink.sink}, sink.oldest_seconds);
    page.add(Id::kAlertRequests, {sink.sink}, static_cast<double>(sink.requests));
    page.add(Id::kAlertRequestSeconds, {sink.sink}, sink.request_seconds);
    page.add(Id::kReminders, {sink.sink}, static_cast<double>(sink.reminders));
    page.add(Id::kWatchdogs, {sink.sink}, static_cast<double>(sink.watchdogs));
    page.add(Id::kDeadLetters, {sink.sink}, static_cast<double>(sink.dead_letters));
  }
}

void add_reload_metrics(const ReloadSample& reloads, Page& page) {
  page.add(Id::kReloads, {"taken"}, static_cast<double>(reloads.taken));
  page.add(Id::kReloads, {"refused"}, static_cast<double>(reloads.refused));
  page.add(Id::kReloadSuccessful, {}, reloads.last_successful ? 1 : 0);
  page.add(Id::kReloadSuccess, {}, static_cast<double>(reloads.success_ms) / 1000);
}

void add_fleet_metrics(const FleetSample& fleet, Page& page) {
  page.add(Id::kFleetServers, {"there"}, static_cast<double>(fleet.there));
  page.add(Id::kFleetServers, {"gone"}, static_cast<double>(fleet.gone));
  page.add(Id::kFleetMoved, {}, static_cast<double>(fleet.moved_clients));
  page.add(Id::kFleetTakenOver, {}, static_cast<double>(fleet.taken_over));
  page.add(Id::kFleetYielded, {}, static_cast<double>(fleet.yielded));
}

void add_refusal_metrics(const RefusalSample& refusals, Page& page) {
  for (const auto& [cause, count] : refusals.by_cause) page.add(Id::kRefusals, {cause}, static_cast<double>(count));
  page.add(Id::kSlowed, {}, static_cast<double>(refusals.slowed));
}

}  // namespace scalewatch::metrics

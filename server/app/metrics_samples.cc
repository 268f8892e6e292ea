#include "server/app/metrics_samples.h"

#include <algorithm>
#include <system_error>

#include "server/history/store_watch.h"

namespace scalewatch::app {

std::vector<metrics::SinkSample> sink_samples(const alerting::Delivery& delivery, std::int64_t now_ms) {
  const std::vector<alerting::SinkStats> all = delivery.stats();
  std::vector<metrics::SinkSample> out;
  out.reserve(all.size());
  for (const alerting::SinkStats& stats : all) {
    const double oldest = stats.oldest_ms == 0 ? 0 : std::max(0.0, static_cast<double>(now_ms - stats.oldest_ms) / 1000);
    out.push_back({.sink = stats.name,
                   .delivered = stats.delivered,
                   .failed = stats.failed,
                   .dropped = stats.given_up,
                   .pending = stats.pending,
                   .oldest_seconds = oldest,
                   .requests = stats.requests,
                   .request_seconds = stats.seconds,
                   .reminders = stats.reminders,
                   .watchdogs = stats.watchdogs,
                   .dead_letters = stats.dead_letters});
  }
  return out;
}

metrics::StoreSample store_sample(history::SqliteStore& store, const std::filesystem::path& data_dir,
                                  const clickhouse::Feeder* feeder) {
  metrics::StoreSample out;
  std::error_code error;
  if (const auto size = std::filesystem::file_size(data_dir / "history.db", error); !error) out.database_bytes = size;
  if (const auto size = std::filesystem::file_size(data_dir / "history.db-wal", error); !error) out.wal_bytes = size;
  if (const auto space = std::filesystem::space(data_dir, error); !error) out.disk_free_bytes = space.available;
  const auto reads = store.readers().cache_reads();
  out.cache_hits = reads.hits;
  out.cache_misses = reads.misses;
  out.commits_lost = store.loss().commits_ever;
  out.ballast_bytes = store.ballast().now;
  out.ballast_wanted = store.ballast().wanted;
  if (const std::uint64_t limit = store.retention().max_run_bytes(); limit > 0) {
    out.run_limit_bytes = limit;
    out.run_bytes = store.retention().run_bytes();
  }
  if (feeder != nullptr) {
    const clickhouse::FeedStats feed = feeder->stats();
    out.shared = {feed.reachable, feed.thinning, feed.lag_seconds, feed.lag_bytes, feed.batches, feed.records, feed.errors};
  }
  return out;
}

metrics::RefusalSample refusal_sample(const auth::Gate& gate) {
  metrics::RefusalSample out;
  for (std::size_t i = 0; i < auth::kRefusals; ++i) {
    out.by_cause.emplace_back(auth::kRefusalNames.at(i), gate.refusals().of(static_cast<auth::Refusal>(i)));
  }
  out.slowed = gate.slowed_count();
  return out;
}

metrics::ReloadSample reload_sample(const engine::ReloadStatus& status) {
  return {status.last_successful, status.success_ms, status.reloads, status.failures};
}

}  // namespace scalewatch::app

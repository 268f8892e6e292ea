// What /metrics tells of parts of the server that know nothing of metrics. Thread-safe as the parts are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "server/alerting/delivery.h"
#include "server/auth/gate.h"
#include "server/engine/ports/reload_status.h"
#include "server/history/clickhouse/feeder.h"
#include "server/history/sqlite_store.h"
#include "server/metrics/exporter.h"

namespace scalewatch::app {

std::vector<metrics::SinkSample> sink_samples(const alerting::Delivery& delivery, std::int64_t now_ms);
// `feeder`: null where there is no shared history.
metrics::StoreSample store_sample(history::SqliteStore& store, const std::filesystem::path& data_dir,
                                  const clickhouse::Feeder* feeder);
metrics::RefusalSample refusal_sample(const auth::Gate& gate);
metrics::ReloadSample reload_sample(const engine::ReloadStatus& status);

}  // namespace scalewatch::app

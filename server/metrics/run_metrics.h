// Series of runs, from what the engine publishes of them. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "server/metrics/exporter.h"
#include "server/metrics/page.h"

namespace scalewatch::metrics {

// `store` for what it has of each run.
void add_run_metrics(const std::vector<engine::RunShown>& shown, const StoreSample& store, const Options& options,
                     std::int64_t now_ms, Page& page);

}  // namespace scalewatch::metrics

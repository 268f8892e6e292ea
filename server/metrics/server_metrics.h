// Series of the server itself and of its process.
#pragma once

#include <vector>

#include "server/engine/engine.h"
#include "server/metrics/exporter.h"
#include "server/metrics/page.h"

namespace scalewatch::metrics {

void add_engine_metrics(const engine::EngineStats& stats, Page& page);
void add_store_metrics(const StoreSample& store, Page& page);
void add_sink_metrics(const std::vector<SinkSample>& sinks, Page& page);
void add_reload_metrics(const ReloadSample& reloads, Page& page);
void add_fleet_metrics(const FleetSample& fleet, Page& page);
void add_refusal_metrics(const RefusalSample& refusals, Page& page);
// Reads /proc; a value that cannot be read is left out.
void add_process_metrics(Page& page);

}  // namespace scalewatch::metrics

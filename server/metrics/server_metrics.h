// Series of the server itself and of its process.
#pragma once

#include <vector>

#include "server/engine/engine.h"
#include "server/metrics/exporter.h"
#include "server/metrics/families.h"

namespace scalewatch::metrics {

void add_engine_metrics(const engine::EngineStats& stats, Families& families);
void add_sink_metrics(const std::vector<SinkSample>& sinks, Families& families);
// Reads /proc; a value that cannot be read is left out.
void add_process_metrics(Families& families);

}  // namespace scalewatch::metrics

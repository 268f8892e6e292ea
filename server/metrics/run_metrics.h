// Series of runs, from their published overviews. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/metrics/exporter.h"
#include "server/metrics/families.h"

namespace scalewatch::metrics {

using Overviews = std::vector<std::shared_ptr<const v1::GetRunResponse>>;

void add_run_metrics(const Overviews& overviews, const Options& options, std::int64_t now_ms, Families& families);

}  // namespace scalewatch::metrics

// scaler_sums: 64 attempts of a scaler taken together, so that a long history reads few rows.
#pragma once

#include <cstdint>

#include "scalewatch/v1/history.pb.h"
#include "server/history/sqlite.h"

namespace scalewatch::history {

// Sums up the buckets that lie within these attempts and are not summed up yet, of all scalers of a segment. Runs within the
// transaction of its caller, so that no observation slips in between.
void sum_scalers(Connection& writer, std::int64_t run, std::uint32_t segment, std::uint64_t first, std::uint64_t last);

// Appends attempts that come after those in the point.
void add_to_point(const v1::ScalerPoint& later, v1::ScalerPoint& point);

}  // namespace scalewatch::history

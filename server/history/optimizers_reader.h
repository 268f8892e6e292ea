// What the trainers said of their optimizers when they connected.
#pragma once

#include <cstdint>

#include "scalewatch/v1/history.pb.h"
#include "server/history/read_pool.h"

namespace scalewatch::history {

// Appends the optimizers of the segment's lowest rank, as its newest start has them. Adds none where the segment has no stream.
void read_optimizers(Connection& connection, std::int64_t run, std::uint32_t segment, v1::GetRunResponse& response);

}  // namespace scalewatch::history

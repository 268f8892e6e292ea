// What a stored snapshot of a run says of itself, without a run. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/engine/readings.h"

namespace scalewatch::engine {

// Place in the run's log after which entries are needed to fold on from this snapshot: its own, or that of the oldest state of
// a rank in it. 0 for a state that can't be read: all of the log.
std::uint64_t log_needed_after(const std::string& state);

// What metrics showed of the run when it was taken; absent in those of older servers and in a state that can't be read.
std::optional<RunReadings> readings_in(const std::string& state);

}  // namespace scalewatch::engine

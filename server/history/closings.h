// How attempts were closed, from the run's logged inputs. They stay until retention removes the whole run: neither compaction
// nor thinning takes them.
#pragma once

#include <cstdint>
#include <vector>

#include "server/history/read_pool.h"

namespace scalewatch::history {

// Ranks that had not reported the attempt when it was closed, rising: those that were waited for, and all that reported it
// later. One that was not waited for (not joined yet, or silent for long) and never reported it is not among them. Empty also
// when it is not closed, when all that is stored of it came after a later attempt had closed, and when the logged input is gone
// (a file that was repaired, or cut by hand). Throws StoreError.
std::vector<std::uint32_t> missing_ranks(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt);

}  // namespace scalewatch::history

// What is asked of a segment as a whole, of the store and of what is older together. `older` may be null everywhere. Throws
// what OlderHistory does, with a word on what can still be asked.
#pragma once

#include "server/history/older_history.h"
#include "server/history/reading.h"
#include "server/history/report_reader.h"
#include "server/history/scaler_reader.h"

namespace scalewatch::history {

// Smallest and largest attempt that has a report.
std::optional<AttemptBounds> bounds_of(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment);
// The largest attempt that has one.
std::optional<std::uint64_t> newest_attempt(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment);
// The smallest attempt from `attempt` on.
std::optional<std::uint64_t> next_attempt(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                          std::uint64_t attempt);
// The largest attempt below `attempt`.
std::optional<std::uint64_t> last_attempt_before(Reading& reading, std::int64_t run, std::uint32_t segment,
                                                 std::uint64_t attempt);

// As read_scaler() and scalers_at() of the store alone.
std::optional<std::uint64_t> read_scaler(Reading& reading, ReadPool& pool, const ScalerRange& range,
                                         std::chrono::steady_clock::time_point deadline, ScalerSink& sink);
std::vector<v1::ScalerPoint> scalers_at(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                        std::uint64_t attempt, std::optional<std::uint32_t> rank);
std::vector<std::uint32_t> missing_ranks(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                         std::uint64_t attempt);

}  // namespace scalewatch::history

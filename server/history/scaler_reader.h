// Stored scaler observations, without the reports that brought them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/history/read_pool.h"
#include "server/history/row_check.h"

namespace scalewatch::history {

// Attempts of one row of scaler_sums.
inline constexpr std::uint64_t kScalerBucket = 64;

struct StoredScaler {
  std::uint64_t attempt = 0;
  std::uint32_t rank = 0;
  std::int64_t step = 0;
  std::optional<double> scale_before;
  std::optional<double> scale_after;
  std::optional<std::uint64_t> growth_tracker;
  std::int32_t outcome = 0;  // 0 unknown, 1 applied, 2 skipped, 3 partial
  std::optional<double> loss;
};

// Of a segment's scaler: attempts from and to, ranks from and to, inclusive; in order of attempt, then rank.
inline constexpr const char* kScalerSelect =
    "SELECT attempt, step, scale_before, scale_after, growth_tracker, outcome, loss, rank, " SCALEWATCH_SCALER_CHECKED
    " FROM scaler_rows "
    "WHERE run = ? AND segment = ? AND scaler = ? AND attempt >= ? AND attempt <= ? AND rank >= ? AND rank <= ? "
    "ORDER BY attempt, rank";
// A row of it; absent when it is damaged.
std::optional<StoredScaler> read_scaler_row(const Query& query);

struct ScalerRange {
  std::int64_t run = 0;
  std::uint32_t segment = 0;
  std::uint32_t scaler = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;             // inclusive
  std::optional<std::uint32_t> rank;  // absent: the lowest rank that reported each attempt
};

// Takes attempts in order.
class ScalerSink {
 public:
  virtual ~ScalerSink() = default;
  // May what lies from one attempt to another come as one point?
  virtual bool takes_point(std::uint64_t first, std::uint64_t last) = 0;
  virtual void point(const v1::ScalerPoint& point) = 0;
  virtual void attempt(const StoredScaler& row) = 0;
};

// Returns the attempt to go on from; absent when all was read before the deadline.
std::optional<std::uint64_t> read_scaler(ReadPool& pool, const ScalerRange& range,
                                         std::chrono::steady_clock::time_point deadline, ScalerSink& sink);

// The scalers of a segment, rising; at most 64.
std::vector<std::uint32_t> scaler_numbers(Connection& connection, std::int64_t run, std::uint32_t segment);

// All scalers at one attempt, by number; at most 64.
std::vector<v1::ScalerPoint> scalers_at(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt,
                                        std::optional<std::uint32_t> rank);

// Folds an attempt into a point: counts add, extremes combine, the ends keep their scales. A new point has first_attempt 0.
void add_to_point(const StoredScaler& row, v1::ScalerPoint& point);

}  // namespace scalewatch::history

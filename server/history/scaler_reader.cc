#include "server/history/scaler_reader.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::history {

namespace {

constexpr std::size_t kMaxScalers = 64;
// Rows of further ranks that are stepped over before a seek to the next attempt is cheaper.
constexpr int kStepOver = 8;
constexpr int kPageAttempts = 4096;

constexpr const char* kSelect =
    "SELECT attempt, step, scale_before, scale_after, growth_tracker, outcome, loss FROM scaler_rows "
    "WHERE run = ? AND segment = ? AND scaler = ? AND attempt >= ? AND attempt <= ? AND rank >= ? AND rank <= ? "
    "ORDER BY attempt, rank";

StoredScaler read_row(const Query& query) {
  StoredScaler row;
  row.attempt = query.u64(0);
  row.step = query.i64(1);
  row.scale_before = query.number(2);
  row.scale_after = query.number(3);
  if (!query.is_null(4)) row.growth_tracker = query.u64(4);
  row.outcome = query.i32(5);
  row.loss = query.number(6);
  return row;
}

void widen(v1::ScalerPoint& point, std::optional<double> scale) {
  if (!scale || std::isnan(*scale)) return;
  point.set_scale_min(point.has_scale_min() ? std::min(point.scale_min(), *scale) : *scale);
  point.set_scale_max(point.has_scale_max() ? std::max(point.scale_max(), *scale) : *scale);
}

// Reads from `next` on until the page is full; moves `next` behind what was read. False when the range is at its end.
bool read_page(ReadPool& pool, const ScalerRange& range, std::uint64_t& next, std::vector<StoredScaler>& rows) {
  const std::int64_t low = range.rank ? std::int64_t{*range.rank} : 0;
  const std::int64_t high = range.rank ? std::int64_t{*range.rank} : 0xffffffff;
  ReadPool::Lease lease(pool);
  for (bool seek = true; seek;) {
    seek = false;
    Query query(*lease, kSelect, range.run, range.segment, range.scaler, next, range.last, low, high);
    for (int repeats = 0; query.step();) {
      const std::uint64_t attempt = query.u64(0);
      if (!rows.empty() && rows.back().attempt == attempt) {
        seek = ++repeats > kStepOver;
        if (seek) break;
        continue;
      }
      if (!rows.empty() && (rows.size() >= kPageAttempts || lease.page_over())) return true;
      rows.push_back(read_row(query));
      next = attempt + 1;
      repeats = 0;
    }
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> read_scaler(ReadPool& pool, const ScalerRange& range,
                                         std::chrono::steady_clock::time_point deadline,
                                         const std::function<void(const StoredScaler&)>& visit) {
  std::uint64_t next = range.first;
  std::vector<StoredScaler> rows;
  for (;;) {
    rows.clear();
    const bool more = read_page(pool, range, next, rows);
    for (const auto& row : rows) visit(row);
    if (!more) return std::nullopt;
    if (std::chrono::steady_clock::now() >= deadline) return next;
  }
}

std::vector<std::uint32_t> scaler_numbers(Connection& connection, std::int64_t run, std::uint32_t segment) {
  std::vector<std::uint32_t> numbers;
  // A seek each; DISTINCT would walk all rows.
  for (std::int64_t last = -1; numbers.size() < kMaxScalers; last = numbers.back()) {
    Query query(connection, "SELECT min(scaler) FROM scaler_rows WHERE run = ? AND segment = ? AND scaler > ?", run, segment,
                last);
    if (!query.step() || query.is_null(0)) break;
    numbers.push_back(query.u32(0));
  }
  return numbers;
}

std::vector<v1::ScalerPoint> scalers_at(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt,
                                        std::optional<std::uint32_t> rank) {
  std::vector<std::uint32_t> numbers;
  {
    ReadPool::Lease lease(pool);
    numbers = scaler_numbers(*lease, run, segment);
  }
  std::vector<v1::ScalerPoint> points;
  std::vector<StoredScaler> rows;
  for (const std::uint32_t scaler : numbers) {
    std::uint64_t next = attempt;
    rows.clear();
    read_page(pool, {run, segment, scaler, attempt, attempt, rank}, next, rows);
    for (const auto& row : rows) {
      auto& point = points.emplace_back();
      point.set_scaler(scaler);
      add_to_point(row, point);
    }
  }
  return points;
}

void add_to_point(const StoredScaler& row, v1::ScalerPoint& point) {
  if (point.first_attempt() == 0) {
    point.set_first_attempt(row.attempt);
    if (row.scale_before) point.set_scale_before(*row.scale_before);
  }
  point.set_last_attempt(row.attempt);
  point.set_last_step(row.step);
  point.clear_scale_after();
  if (row.scale_after) point.set_scale_after(*row.scale_after);
  widen(point, row.scale_before);
  widen(point, row.scale_after);
  if (row.growth_tracker) point.set_growth_tracker(*row.growth_tracker);
  switch (row.outcome) {
    case 1:
      point.set_applied(point.applied() + 1);
      break;
    case 2:
      point.set_skipped(point.skipped() + 1);
      break;
    case 3:
      point.set_partial(point.partial() + 1);
      break;
    default:
      point.set_unknown(point.unknown() + 1);
  }
  if (row.loss) {
    point.set_loss(*row.loss);
    if (!std::isfinite(*row.loss)) point.set_non_finite_losses(point.non_finite_losses() + 1);
  }
}

}  // namespace scalewatch::history

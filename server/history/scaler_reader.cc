#include "server/history/scaler_reader.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::history {

namespace {

constexpr std::size_t kMaxScalers = 64;
// Rows of further ranks that are stepped over before a seek to the next attempt is cheaper.
constexpr int kStepOver = 8;
constexpr int kPageAttempts = 4096;

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
    Query query(*lease, kScalerSelect, range.run, range.segment, range.scaler, next, range.last, low, high);
    for (int repeats = 0; query.step();) {
      const std::uint64_t attempt = query.u64(0);
      if (!rows.empty() && rows.back().attempt == attempt) {
        seek = ++repeats > kStepOver;
        if (seek) break;
        continue;
      }
      if (!rows.empty() && (rows.size() >= kPageAttempts || lease.page_over())) return true;
      auto row = read_scaler_row(query);
      if (!row) continue;  // verify tells; the next rank stands for the attempt
      rows.push_back(*row);
      next = attempt + 1;
      repeats = 0;
    }
  }
  return false;
}

struct Sum {
  std::uint64_t bucket = 0;
  std::optional<std::uint32_t> only_rank;
  v1::ScalerPoint point;
};

// A page of sums from `bucket` on, which moves behind them; false when there are no more.
bool read_sums(ReadPool& pool, const ScalerRange& range, std::uint64_t& bucket, std::vector<Sum>& sums) {
  ReadPool::Lease lease(pool);
  Query query(*lease,
              "SELECT bucket, only_rank, point FROM scaler_sums WHERE run = ? AND segment = ? AND scaler = ? AND bucket >= ? "
              "AND bucket <= ? ORDER BY bucket",
              range.run, range.segment, range.scaler, bucket, range.last / kScalerBucket);
  while (query.step()) {
    if (!sums.empty() && (sums.size() == kPageAttempts || lease.page_over())) return true;
    auto& sum = sums.emplace_back();
    sum.bucket = query.u64(0);
    if (!query.is_null(1)) sum.only_rank = query.u32(1);
    const auto bytes = query.view(2);
    bucket = sum.bucket + 1;
    if (!sum.point.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) sums.pop_back();
  }
  return false;
}

}  // namespace

std::optional<StoredScaler> read_scaler_row(const Query& query) {
  if (!row_is_whole(query, 8)) return std::nullopt;
  StoredScaler row;
  row.attempt = query.u64(0);
  row.step = query.i64(1);
  row.scale_before = query.number(2);
  row.scale_after = query.number(3);
  if (!query.is_null(4)) row.growth_tracker = query.u64(4);
  row.outcome = query.i32(5);
  row.loss = query.number(6);
  row.rank = query.u32(7);
  return row;
}

std::optional<std::uint64_t> read_scaler(ReadPool& pool, const ScalerRange& range,
                                         std::chrono::steady_clock::time_point deadline, ScalerSink& sink) {
  const auto late = [&] { return std::chrono::steady_clock::now() >= deadline; };
  std::uint64_t next = range.first;
  std::vector<StoredScaler> rows;
  // Attempt by attempt up to `last`; false when the deadline came first.
  const auto read_rows = [&](std::uint64_t last) {
    ScalerRange part = range;
    part.last = last;
    for (bool more = next <= last; more;) {
      rows.clear();
      more = read_page(pool, part, next, rows);
      for (const auto& row : rows) sink.attempt(row);
      if (more && late()) return false;
    }
    next = last + 1;
    return true;
  };
  std::vector<Sum> sums;
  std::uint64_t bucket = range.first / kScalerBucket;
  for (bool more = true; more;) {
    sums.clear();
    more = read_sums(pool, range, bucket, sums);
    for (const auto& sum : sums) {
      const bool inside = sum.point.first_attempt() >= range.first && sum.point.last_attempt() <= range.last;
      if (!inside || (range.rank && sum.only_rank != range.rank) ||
          !sink.takes_point(sum.point.first_attempt(), sum.point.last_attempt())) {
        continue;  // read with what lies between sums
      }
      const std::uint64_t begin = sum.bucket * kScalerBucket;
      if (begin > next && !read_rows(begin - 1)) return next;
      sink.point(sum.point);
      next = begin + kScalerBucket;
      if (late()) return next;
    }
  }
  if (!read_rows(range.last)) return next;
  return std::nullopt;
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

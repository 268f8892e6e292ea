#include "server/history/scaler_sums.h"

#include <algorithm>
#include <limits>

#include "server/history/scaler_reader.h"

namespace scalewatch::history {

namespace {

void sum_bucket(Connection& writer, std::int64_t run, std::uint32_t segment, std::uint32_t scaler, std::uint64_t bucket) {
  v1::ScalerPoint point;
  std::int64_t only_rank = -1;
  bool one_rank = true;
  // The lowest rank of each attempt; a seek each, for a wide run has many ranks.
  for (std::uint64_t next = bucket * kScalerBucket; next < (bucket + 1) * kScalerBucket;) {
    Query row(writer, kScalerSelect, run, segment, scaler, next, (bucket + 1) * kScalerBucket - 1, 0,
              std::int64_t{std::numeric_limits<std::uint32_t>::max()});
    std::optional<StoredScaler> stored;
    while (!stored && row.step()) stored = read_scaler_row(row);
    if (!stored) break;
    one_rank = one_rank && (only_rank < 0 || only_rank == stored->rank);
    only_rank = stored->rank;
    add_to_point(*stored, point);
    next = stored->attempt + 1;
  }
  if (only_rank < 0) return;
  Query(writer,
        "INSERT INTO scaler_sums (run, segment, scaler, bucket, only_rank, point) VALUES (?, ?, ?, ?, NULLIF(?, -1), ?)", run,
        segment, scaler, bucket, one_rank ? only_rank : -1, Blob{point.SerializeAsString()})
      .run();
}

}  // namespace

void sum_scalers(Connection& writer, std::int64_t run, std::uint32_t segment, std::uint64_t first, std::uint64_t last) {
  // The first bucket may have begun in the stretch before; the last may go on. Attempts may lie far apart (a log's count of
  // tokens, a client that jumps): only buckets that hold any are looked at.
  for (const std::uint32_t scaler : scaler_numbers(writer, run, segment)) {
    for (std::uint64_t begin = first - first % kScalerBucket;;) {
      std::optional<std::uint64_t> next;
      {
        Query row(writer,
                  "SELECT attempt FROM scaler_rows WHERE run = ? AND segment = ? AND scaler = ? AND attempt >= ? "
                  "ORDER BY attempt LIMIT 1",
                  run, segment, scaler, begin);
        if (row.step()) next = row.u64(0);
      }
      if (!next) break;
      const std::uint64_t bucket = *next / kScalerBucket;
      begin = (bucket + 1) * kScalerBucket;
      if (begin > last) break;
      Query known(writer, "SELECT 1 FROM scaler_sums WHERE run = ? AND segment = ? AND scaler = ? AND bucket = ?", run, segment,
                  scaler, bucket);
      if (!known.step()) sum_bucket(writer, run, segment, scaler, bucket);
    }
  }
}

void add_to_point(const v1::ScalerPoint& later, v1::ScalerPoint& point) {
  if (point.first_attempt() == 0) {
    point = later;
    return;
  }
  point.set_last_attempt(later.last_attempt());
  point.set_last_step(later.last_step());
  point.clear_scale_after();
  if (later.has_scale_after()) point.set_scale_after(later.scale_after());
  if (later.has_scale_min()) {
    point.set_scale_min(point.has_scale_min() ? std::min(point.scale_min(), later.scale_min()) : later.scale_min());
    point.set_scale_max(point.has_scale_max() ? std::max(point.scale_max(), later.scale_max()) : later.scale_max());
  }
  if (later.has_growth_tracker()) point.set_growth_tracker(later.growth_tracker());
  point.set_applied(point.applied() + later.applied());
  point.set_skipped(point.skipped() + later.skipped());
  point.set_partial(point.partial() + later.partial());
  point.set_unknown(point.unknown() + later.unknown());
  if (later.has_loss()) point.set_loss(later.loss());
  point.set_non_finite_losses(point.non_finite_losses() + later.non_finite_losses());
}

}  // namespace scalewatch::history

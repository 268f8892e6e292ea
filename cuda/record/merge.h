// Merging of records: shards of one tensor, or micro-batches of one attempt.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/record/record.h"

namespace scalewatch {

// Rounds to 24 significant bits, ties to even, and saturates instead of overflowing: the form in which sums are stored.
// Infinities and NaN stay as they are.
[[nodiscard]] inline double round_to_24_bits(double value) noexcept {
  if (!std::isfinite(value)) return value;
  constexpr int kDropped = 53 - 24;
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1;
  constexpr std::uint64_t kExponent = std::uint64_t{0x7FF} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  // A subnormal has fewer significant bits to begin with.
  const bool subnormal = (bits & kExponent) == 0;
  const int dropped = subnormal ? std::max(0, static_cast<int>(std::bit_width(bits & kMantissa)) - 24) : kDropped;
  if (dropped == 0) return value;
  const std::uint64_t low = (std::uint64_t{1} << dropped) - 1;
  const std::uint64_t up = (low >> 1) + ((bits >> dropped) & 1U);
  const double rounded = std::bit_cast<double>((bits + up) & ~low);
  if (std::isfinite(rounded)) return rounded;
  return std::copysign(0x1.FFFFFEp1023, value);
}

// Sum that stays within double's range. NaN and infinities of a record from outside stay visible.
[[nodiscard]] inline double saturating_add(double a, double b) noexcept {
  const double total = a + b;
  if (!std::isinf(total) || std::isinf(a) || std::isinf(b)) return total;
  return std::copysign(std::numeric_limits<double>::max(), total);
}

// Adds another shard or micro-batch, measured against the same target format under the same scale, to a record.
//
// Counts add and extremes combine, in any order to the same result. Sums add in the order of the calls: whoever merges shards
// calls in rising order of ranks (micro-batches: in order of time), so that a merge is reproducible bit by bit. Sums are not
// rounded here, so that many merges cost no precision; round_sums does it before the record is stored.
inline void merge(Record& into, const Record& from) noexcept {
  into.numel += from.numel;
  into.nan += from.nan;
  into.pos_inf += from.pos_inf;
  into.neg_inf += from.neg_inf;
  into.zero += from.zero;
  into.subnormal += from.subnormal;
  into.flushed += from.flushed;
  into.over += from.over;
  into.sum = saturating_add(into.sum, from.sum);
  into.sum_sq = saturating_add(into.sum_sq, from.sum_sq);
  // fmin and fmax take the other value where one is NaN, which means absent.
  into.min = std::fmin(into.min, from.min);
  into.max = std::fmax(into.max, from.max);
  into.absmin_nonzero = std::fmin(into.absmin_nonzero, from.absmin_nonzero);
}

// Rounds the sums of a merged record to the form in which they are stored.
inline void round_sums(Record& record) noexcept {
  record.sum = round_to_24_bits(record.sum);
  record.sum_sq = round_to_24_bits(record.sum_sq);
}

}  // namespace scalewatch

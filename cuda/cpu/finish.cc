#include "cuda/cpu/finish.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/record/convert.h"
#include "cuda/record/format.h"
#include "cuda/record/merge.h"

namespace scalewatch::cpu {
namespace {

// Nearest float within float's range; what is not zero stays so.
float to_float(double value) noexcept {
  if (value == 0) return 0.0F;  // also drops the sign of -0
  const double magnitude =
      std::clamp<double>(std::fabs(value), std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max());
  return static_cast<float>(std::copysign(magnitude, value));
}

float value_of(std::uint64_t pattern, DType dtype) noexcept {
  if (dtype == DType::kFp64) return to_float(std::bit_cast<double>(pattern));
  return decode(dtype, static_cast<std::uint32_t>(pattern)) + 0.0F;
}

// Pairwise, in the order of chains.
double total(const double* chains) noexcept {
  double level[kChains];
  std::copy(chains, chains + kChains, level);
  for (std::size_t width = kChains / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) level[i] = level[2 * i] + level[2 * i + 1];
  }
  return level[0];
}

// Sum of what was added plainly and what was added scaled down.
double join(double plain, double scaled, int exponent) noexcept {
  constexpr double kMax = std::numeric_limits<double>::max();
  const double huge = scaled == 0 ? 0 : std::clamp(std::ldexp(scaled, exponent), -kMax, kMax);
  return round_to_24_bits(std::clamp(plain + huge, -kMax, kMax));
}

void set_extremes(const State& state, DType dtype, Record& record) noexcept {
  const int bits = format_layout(dtype).bits;
  if (record.finite() == 0 || bits == 0) return;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  const auto smallest = static_cast<std::uint64_t>(state.magnitude_min);
  const bool any_negative = (state.unsigned_max & sign) != 0;
  const bool all_negative = state.signed_max < 0;
  record.max = value_of(all_negative ? smallest | sign : static_cast<std::uint64_t>(state.signed_max), dtype);
  record.min = value_of(any_negative ? state.unsigned_max : smallest, dtype);
  if (record.finite() > record.zero) record.absmin_nonzero = value_of(state.absmin_less_1 + 1, dtype);
}

}  // namespace

void merge(State& into, const State& from) noexcept {
  into.numel += from.numel;
  into.nan += from.nan;
  into.pos_inf += from.pos_inf;
  into.neg_inf += from.neg_inf;
  into.zero += from.zero;
  into.subnormal += from.subnormal;
  into.flushed += from.flushed;
  into.over += from.over;
  into.signed_max = std::max(into.signed_max, from.signed_max);
  into.unsigned_max = std::max(into.unsigned_max, from.unsigned_max);
  into.magnitude_min = std::min(into.magnitude_min, from.magnitude_min);
  into.absmin_less_1 = std::min(into.absmin_less_1, from.absmin_less_1);
  for (std::size_t c = 0; c < kChains; ++c) {
    into.sum[c] += from.sum[c];
    into.sum_sq[c] += from.sum_sq[c];
  }
  into.huge_sum += from.huge_sum;
  into.huge_sum_sq += from.huge_sum_sq;
}

Record finish(const State& state, DType dtype) noexcept {
  Record record;
  record.numel = state.numel;
  record.nan = state.nan;
  record.pos_inf = state.pos_inf;
  record.neg_inf = state.neg_inf;
  record.zero = state.zero;
  record.subnormal = state.subnormal;
  record.flushed = state.flushed;
  record.over = state.over;
  // An e4m3fn element was added as 2^-8 times its value.
  const double factor = dtype == DType::kE4m3fn ? 0x1p8 : 1.0;
  record.sum = join(total(state.sum) * factor, state.huge_sum, kHugeExponent);
  record.sum_sq = join(total(state.sum_sq) * factor * factor, state.huge_sum_sq, kHugeSquareExponent);
  set_extremes(state, dtype, record);
  return record;
}

}  // namespace scalewatch::cpu

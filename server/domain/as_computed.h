// Values as the computation had them, where a record counts them as stored or without their loss scale.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "server/domain/rank_state.h"
#include "server/domain/tensor_facts.h"

namespace scalewatch::domain {

struct AsComputed {
  float factor = 1;   // as computed over as stored; NaN: not known
  bool exact = true;  // subnormal and flushed are counted as computed
};

// Of a gradient or an activation's. `group_scale`: newest scale of its scaler, 1 without one, NaN when it is not known.
inline AsComputed gradient_as_computed(double measured_under_scale, bool target_is_fp8, DType dtype, double group_scale) {
  if (target_is_fp8) return {static_cast<float>(1 / measured_under_scale), true};
  // What is in a narrow tensor is what there is.
  if (measured_under_scale != 1 || is_narrow(dtype)) return {1, measured_under_scale == 1};
  const auto factor = static_cast<float>(group_scale);
  return {factor, factor == 1};
}

// Share of the non-zero elements of record `index` that are below the smallest normal of the format. A histogram of exponents
// (`exponents`, its place in the block, or beyond them for none) tells; without one, where the counts are not exact, the sum of
// squares gives a bound that is never too high: of n non-zero elements at most sum_sq / t^2 are t or more.
inline double subnormal_share(const RecordColumns& columns, std::uint32_t index, double non_zero, AsComputed values,
                              double smallest_normal, int normal_exponent, std::size_t exponents) {
  if (non_zero <= 0) return 0;
  if (exponents < columns.exponents.size()) {
    const ExponentColumn& histogram = columns.exponents[exponents];
    const int below = normal_exponent - std::ilogb(values.factor);
    double all = 0;
    double under = 0;
    for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
      const auto count = static_cast<double>(histogram.counts[i]);
      all += count;
      if (histogram.first_exponent + static_cast<std::int64_t>(i) < below) under += count;
    }
    return all > 0 ? under / all : 0;
  }
  if (values.exact) return columns.subnormal.empty() ? 0 : static_cast<double>(columns.subnormal[index]) / non_zero;
  const double threshold = smallest_normal / static_cast<double>(values.factor);
  return std::max(0.0, 1 - columns.sum_sq[index] / (threshold * threshold * non_zero));
}

}  // namespace scalewatch::domain

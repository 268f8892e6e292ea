// The thresholds of a record as integers: a magnitude's bit pattern is compared, so no floating-point mode can change a count.
#pragma once

#include <cstdint>

#include "cuda/record/record.h"

namespace scalewatch::cpu {

// Limits on the bits of a magnitude (sign cleared) of one dtype. All are at least 1 and at most first_nan.
struct Cuts {
  std::uint64_t subnormal_below = 0;   // non-zero and below: subnormal in the target format
  std::uint64_t flushed_below = 0;     // non-zero and below: rounds to zero in the target format
  std::uint64_t over_from = 0;         // at or above, and finite: rounds to non-finite in the target format
  std::uint64_t first_non_finite = 0;  // at or above: infinity or NaN
  std::uint64_t first_nan = 0;         // at or above: NaN
};

// Cuts for elements of dtype, stored under scale, against target. Exact for every scale: |x| / scale is compared as a real
// number. An unknown target never matches.
[[nodiscard]] Cuts make_cuts(DType dtype, DType target, double scale) noexcept;

}  // namespace scalewatch::cpu

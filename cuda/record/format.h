// The number formats that tensors are stored in and computed in: their exact limits, by round-to-nearest-even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/record/record.h"

namespace scalewatch {

// The exact number mantissa * 2^exponent. Holds limits that a double can't (those of fp64).
struct Dyadic {
  std::uint64_t mantissa = 0;
  int exponent = 0;

  // Nearest double; infinity or 0 where double's range ends.
  [[nodiscard]] double value() const noexcept { return std::ldexp(static_cast<double>(mantissa), exponent); }
};

// Limits of a binary floating-point format. Magnitudes; signs don't matter.
struct FormatLimits {
  double max_finite = 0;          // largest finite value
  double smallest_normal = 0;     // a non-zero magnitude below it is subnormal
  double smallest_subnormal = 0;  // smallest non-zero value
  Dyadic flush;                   // a magnitude <= flush rounds to zero
  Dyadic over;                    // a magnitude >= over rounds to a non-finite value ...
  bool over_is_strict = false;    // ... or only one > over does: the tie at over rounds to max_finite (e4m3fn)
};

// How a format lays out its bits: sign, exponent, mantissa; the encodings at and above first_non_finite are infinity and NaN.
struct FormatLayout {
  int bits = 0;                        // total width; 0 = unknown format
  int mantissa_bits = 0;               // without the implicit one
  int bias = 0;                        // exponent bias
  std::uint64_t first_non_finite = 0;  // smallest magnitude encoding that is not finite
  std::uint64_t first_nan = 0;         // smallest magnitude encoding that is NaN
};

[[nodiscard]] constexpr FormatLayout format_layout(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFp64:
      return {64, 52, 1023, 0x7FF0000000000000U, 0x7FF0000000000001U};
    case DType::kFp32:
      return {32, 23, 127, 0x7F800000U, 0x7F800001U};
    case DType::kFp16:
      return {16, 10, 15, 0x7C00U, 0x7C01U};
    case DType::kBf16:
      return {16, 7, 127, 0x7F80U, 0x7F81U};
    case DType::kE4m3fn:
      return {8, 3, 7, 0x7FU, 0x7FU};  // no infinity, one NaN
    case DType::kE5m2:
      return {8, 2, 15, 0x7CU, 0x7DU};
    case DType::kUnspecified:
      break;
  }
  return {};
}

// Bytes of an element; 0 for kUnspecified.
[[nodiscard]] constexpr std::uint64_t element_size(DType dtype) noexcept {
  return static_cast<std::uint64_t>(format_layout(dtype).bits) / 8;
}

// Limits of a format. For kUnspecified all are 0.
[[nodiscard]] constexpr FormatLimits format_limits(DType format) noexcept {
  switch (format) {
    case DType::kFp64:
      return {std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-1074, {1, -1075}, {(std::uint64_t{1} << 54) - 1, 970}};
    case DType::kFp32:
      return {0x1.FFFFFEp127, 0x1p-126, 0x1p-149, {1, -150}, {(1U << 25) - 1, 103}};
    case DType::kFp16:
      return {65504, 0x1p-14, 0x1p-24, {1, -25}, {65520, 0}};
    case DType::kBf16:
      return {0x1.FEp127, 0x1p-126, 0x1p-133, {1, -134}, {(1U << 9) - 1, 119}};
    case DType::kE4m3fn:
      return {448, 0x1p-6, 0x1p-9, {1, -10}, {464, 0}, true};
    case DType::kE5m2:
      return {57344, 0x1p-14, 0x1p-16, {1, -17}, {61440, 0}};
    case DType::kUnspecified:
      break;
  }
  return {};
}

// The scale that thresholds are met under: one that is not finite and positive counts as 1.
[[nodiscard]] inline double effective_scale(double scale) noexcept {
  return std::isfinite(scale) && scale > 0 ? scale : 1.0;
}

// Headroom in octaves: log2(largest finite value of target / (absmax / scale)). Negative when the unscaled absmax is beyond the
// target's range, +infinity when all finite elements are zero, NaN when no element is finite or the target is unknown.
[[nodiscard]] inline double headroom(const Record& record, DType target, double scale) noexcept {
  const double max_finite = format_limits(target).max_finite;
  const double absmax = record.absmax();
  if (max_finite == 0 || std::isnan(absmax)) return std::numeric_limits<double>::quiet_NaN();
  if (absmax == 0) return std::numeric_limits<double>::infinity();
  return std::log2(max_finite) - std::log2(absmax) + std::log2(effective_scale(scale));
}

}  // namespace scalewatch

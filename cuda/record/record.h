// The statistics of one tensor at one attempt: the one definition that every kernel, client and server shares.
//
// Header-only, no CUDA, no I/O. All functions are pure and thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace scalewatch {

// Element type of a tensor. Numbers equal scalewatch.v1.DType on the wire.
enum class DType : std::uint8_t { kUnspecified = 0, kFp64 = 1, kFp32 = 2, kFp16 = 3, kBf16 = 4, kE4m3fn = 5, kE5m2 = 6 };

// What a tensor is to the training step. Numbers equal scalewatch.v1.Role on the wire.
enum class Role : std::uint8_t {
  kUnspecified = 0,
  kGradient = 1,
  kParameter = 2,
  kActivation = 3,
  kActivationGradient = 4,
  kOptimizerState = 5,
  kBuffer = 6,
};

// Statistics of one tensor. Counts are exact. Finite statistics ignore NaN and infinities.
// Values are as stored; thresholds of subnormal, flushed and over are met by the unscaled magnitude |x| / scale.
// A default record is that of an empty tensor, and neutral in merge().
struct Record {
  std::uint64_t numel = 0;
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t neg_inf = 0;
  std::uint64_t zero = 0;       // +0 and -0
  std::uint64_t subnormal = 0;  // non-zero, under the target format's smallest normal (flushed ones included)
  std::uint64_t flushed = 0;    // non-zero, rounds to zero in the target format
  std::uint64_t over = 0;       // finite, rounds to non-finite in the target format
  double sum = 0;               // of finite elements; 24 significant bits, saturates at double's range
  double sum_sq = 0;            // of finite elements; 24 significant bits, saturates at double's range
  // Elements of fp64 tensors beyond float's range are clamped to it; a non-zero element never becomes 0.
  float min = std::numeric_limits<float>::quiet_NaN();             // smallest finite element; NaN when no element is finite
  float max = std::numeric_limits<float>::quiet_NaN();             // largest finite element; NaN when no element is finite
  float absmin_nonzero = std::numeric_limits<float>::quiet_NaN();  // smallest finite non-zero magnitude; NaN when there is none

  // Elements that are NaN or infinite.
  [[nodiscard]] constexpr std::uint64_t non_finite() const noexcept { return nan + pos_inf + neg_inf; }

  // Elements that are neither NaN nor infinite. 0 for a record from outside whose counts exceed numel.
  [[nodiscard]] constexpr std::uint64_t finite() const noexcept { return numel > non_finite() ? numel - non_finite() : 0; }

  // Largest finite magnitude; NaN when no element is finite.
  [[nodiscard]] constexpr float absmax() const noexcept { return std::max(-min, max); }
};

}  // namespace scalewatch

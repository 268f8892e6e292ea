// The statistics of one tensor at one attempt: the one definition that every kernel, client and server shares.
//
// Header-only, no CUDA, no I/O. All functions are pure and thread-safe.
#pragma once

#include <cstdint>

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
struct Record {
  std::uint64_t numel = 0;
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t neg_inf = 0;
  std::uint64_t zero = 0;       // +0 and -0
  std::uint64_t subnormal = 0;  // non-zero, under the target format's smallest normal (flushed ones included)
  std::uint64_t flushed = 0;    // non-zero, rounds to zero in the target format
  std::uint64_t over = 0;       // finite, rounds to non-finite in the target format
  double sum = 0;               // of finite elements
  double sum_sq = 0;            // of finite elements
  float min = 0;                // smallest finite element; NaN when no element is finite
  float max = 0;                // largest finite element; NaN when no element is finite
  float absmin_nonzero = 0;     // smallest finite non-zero magnitude; NaN when there is none
};

}  // namespace scalewatch

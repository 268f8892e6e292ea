// Contents of tensors.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cuda/record/format.h"
#include "tests/unit/cpu/reference.h"

namespace simt {

using scalewatch::DType;
using scalewatch::cpu_test::Bytes;
using scalewatch::cpu_test::kDTypes;

inline void put(Bytes& bytes, DType dtype, std::uint64_t at, std::uint64_t pattern) {
  const std::uint64_t size = scalewatch::element_size(dtype);
  std::memcpy(bytes.data() + at * size, &pattern, size);
}

// Normally distributed times `factor`, as gradients are: what the fast pass is for.
inline Bytes normal_bytes(DType dtype, std::uint64_t numel, double factor = 1, unsigned seed = 1) {
  static constexpr std::uint64_t kDistinct = 509;  // prime: it repeats with no vector's width
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint64_t> patterns;
  for (std::uint64_t i = 0; i < kDistinct; ++i) {
    patterns.push_back(scalewatch::cpu_test::pattern_of(dtype, static_cast<long double>(normal(random)) * factor));
  }
  Bytes bytes(numel * scalewatch::element_size(dtype));
  for (std::uint64_t i = 0; i < numel; ++i) put(bytes, dtype, i, patterns[(i + i / 1021) % kDistinct]);
  return bytes;
}

// Any patterns at all: NaN, infinities, subnormals, every magnitude.
inline Bytes wild_bytes(DType dtype, std::uint64_t numel, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  Bytes bytes(numel * scalewatch::element_size(dtype));
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

inline std::uint64_t sign_of(DType dtype) {
  return std::uint64_t{1} << (scalewatch::format_layout(dtype).bits - 1);
}
inline std::uint64_t nan_of(DType dtype) {
  return sign_of(dtype) - 1;
}

// NaN of both signs, the quietest and the loudest, and the infinities where there are any.
inline std::vector<std::uint64_t> bad_patterns(DType dtype) {
  const scalewatch::FormatLayout layout = scalewatch::format_layout(dtype);
  std::vector<std::uint64_t> all{nan_of(dtype), nan_of(dtype) | sign_of(dtype), layout.first_nan};
  if (layout.first_non_finite != layout.first_nan) {
    all.insert(all.end(), {layout.first_non_finite, layout.first_non_finite | sign_of(dtype)});
  }
  return all;
}

// Patterns at and around every power of two with both signs, for wide types; all patterns, for narrow ones.
inline std::vector<std::uint64_t> corner_patterns(DType dtype) {
  std::vector<std::uint64_t> patterns;
  const scalewatch::FormatLayout layout = scalewatch::format_layout(dtype);
  const std::uint64_t sign = sign_of(dtype);
  if (layout.bits <= 16) {
    for (std::uint64_t pattern = 0; pattern < 2 * sign; ++pattern) patterns.push_back(pattern);
    return patterns;
  }
  for (std::uint64_t exponent = 0; exponent < sign >> layout.mantissa_bits; ++exponent) {
    for (int step = -1; step <= 1; ++step) {
      const std::uint64_t pattern = (exponent << layout.mantissa_bits) + static_cast<std::uint64_t>(step);
      if (pattern < sign) patterns.insert(patterns.end(), {pattern, pattern | sign});
    }
  }
  patterns.insert(patterns.end(), {sign - 1, 2 * sign - 1});
  return patterns;
}

inline std::uint64_t chunk_of(DType dtype) {
  return std::uint64_t{1} << (dtype == DType::kFp64 ? 13 : dtype == DType::kFp32 ? 14 : 15);
}

}  // namespace simt

// Numbers that matter, and what is expected of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/unit/cpu/reference.h"

namespace simt {

// fp16 or bf16 bits that matter: zeros, subnormals, powers of two, one, the largest, infinities, NaN, and some others.
inline std::vector<std::uint32_t> sample(std::uint32_t step) {
  std::vector<std::uint32_t> bits;
  for (std::uint32_t pattern = 0; pattern < 0x10000; pattern += step) bits.push_back(pattern);
  for (const std::uint32_t pattern : {0x0001U, 0x03FFU, 0x0400U, 0x007FU, 0x0080U, 0x3C00U, 0x3F80U, 0x7BFFU, 0x7C00U, 0x7C01U,
                                      0x7E00U, 0x7F7FU, 0x7F80U, 0x7F81U, 0x7FFFU}) {
    bits.insert(bits.end(), {pattern, pattern | 0x8000U});
  }
  return bits;
}

// The same bits, or both NaN.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

// The smaller value, the other one where one is NaN, NaN where both are.
inline void expect_extreme(std::uint32_t got, std::uint32_t a, std::uint32_t b, scalewatch::DType dtype, bool largest) {
  const long double x = scalewatch::cpu_test::value_of(dtype, a);
  const long double y = scalewatch::cpu_test::value_of(dtype, b);
  const long double value = scalewatch::cpu_test::value_of(dtype, got & 0xFFFFU);
  if (std::isnan(x) && std::isnan(y)) {
    ASSERT_TRUE(std::isnan(value));
  } else if (std::isnan(x) || std::isnan(y)) {
    ASSERT_EQ(got, std::isnan(x) ? b : a);
  } else {
    ASSERT_EQ(value, largest ? std::max(x, y) : std::min(x, y)) << a << " " << b;
    ASSERT_TRUE(got == a || got == b);
  }
}

}  // namespace simt

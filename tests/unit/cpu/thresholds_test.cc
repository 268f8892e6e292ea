// Elements exactly at a threshold, and one last place to either side, for every dtype, target and kind of scale.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/cpu/measure.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

class Thresholds : public OnEachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Cpu, Thresholds, ::testing::ValuesIn(instruction_sets()), name_of_target);

struct Limit {
  DType target;
  long double value;
};

TEST_P(Thresholds, AtAndOneLastPlaceAround) {
  const auto two_to = [](int exponent) { return std::ldexp(1.0L, exponent); };
  const Limit limits[] = {
      {DType::kFp16, two_to(-14)},   {DType::kFp16, two_to(-25)},   {DType::kFp16, 65520},
      {DType::kE4m3fn, two_to(-6)},  {DType::kE4m3fn, two_to(-10)}, {DType::kE4m3fn, 464},
      {DType::kE5m2, two_to(-14)},   {DType::kE5m2, two_to(-17)},   {DType::kE5m2, 61440},
      {DType::kBf16, two_to(-126)},  {DType::kBf16, two_to(-134)},  {DType::kBf16, two_to(128) - two_to(119)},
      {DType::kFp32, two_to(-126)},  {DType::kFp32, two_to(-150)},  {DType::kFp32, two_to(128) - two_to(103)},
      {DType::kFp64, two_to(-1022)}, {DType::kFp64, two_to(-1075)}, {DType::kFp64, two_to(1024) - two_to(970)},
  };
  for (const DType dtype : kDTypes) {
    const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
    for (const Limit& limit : limits) {
      for (const double scale : {1.0, 65536.0, 0x1p-3, static_cast<double>(3.7F), 0x1p-1000, 0x1p900}) {
        const std::uint64_t at = pattern_of(dtype, limit.value * static_cast<long double>(scale));
        for (int step = -2; step <= 2; ++step) {
          const std::uint64_t pattern = (at + static_cast<std::uint64_t>(step)) & (sign - 1);
          const Bytes bytes = pack(dtype, {pattern, pattern | sign});
          expect_matches(measure(bytes.data(), dtype, 2, limit.target, scale),
                         reference(bytes.data(), dtype, 2, limit.target, scale),
                         name_of(dtype) + " as " + name_of(limit.target) + " / " + std::to_string(scale) + " step " +
                             std::to_string(step));
        }
      }
    }
  }
}

// The numbers of the design, spelled out.
TEST_P(Thresholds, TheDesignsNumbers) {
  const auto of = [](float value, DType target, double scale) { return measure(&value, DType::kFp32, 1, target, scale); };
  EXPECT_EQ(of(65520.0F, DType::kFp16, 1).over, 1U);
  EXPECT_EQ(of(std::nextafter(65520.0F, 0.0F), DType::kFp16, 1).over, 0U);
  EXPECT_EQ(of(464.0F, DType::kE4m3fn, 1).over, 0U);
  EXPECT_EQ(of(std::nextafter(464.0F, 500.0F), DType::kE4m3fn, 1).over, 1U);
  EXPECT_EQ(of(-61440.0F, DType::kE5m2, 1).over, 1U);
  EXPECT_EQ(of(0x1p-14F, DType::kFp16, 1).subnormal, 0U);
  EXPECT_EQ(of(std::nextafter(0x1p-14F, 0.0F), DType::kFp16, 1).subnormal, 1U);
  EXPECT_EQ(of(0x1p-25F, DType::kFp16, 1).flushed, 1U);
  EXPECT_EQ(of(0x1p-25F, DType::kFp16, 1).subnormal, 1U);
  EXPECT_EQ(of(std::nextafter(0x1p-25F, 1.0F), DType::kFp16, 1).flushed, 0U);
  EXPECT_EQ(of(0x1p-9F, DType::kFp16, 65536).flushed, 1U);  // 2^-25 under a scale of 2^16
  EXPECT_EQ(of(0.0F, DType::kFp16, 1).flushed, 0U);
}

}  // namespace
}  // namespace scalewatch::cpu_test

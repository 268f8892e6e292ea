#include "cuda/record/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace scalewatch {
namespace {

// The same value, NaN equal to NaN, and the same sign of zero.
void expect_same(float got, float want, unsigned pattern) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << pattern;
    return;
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want)) << pattern;
}

TEST(Convert, EveryFp16PatternIsWhatTheCompilerSays) {
  for (unsigned pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    expect_same(fp16_to_float(bits), static_cast<float>(std::bit_cast<_Float16>(bits)), pattern);
  }
}

TEST(Convert, EveryBf16PatternIsTheUpperHalfOfAFloat) {
  for (unsigned pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const float want = std::bit_cast<float>(pattern << 16);
    expect_same(bf16_to_float(static_cast<std::uint16_t>(pattern)), want, pattern);
    expect_same(decode(DType::kBf16, pattern), want, pattern);
  }
}

TEST(Convert, EveryE5m2PatternIsTheUpperByteOfAnFp16) {
  for (unsigned pattern = 0; pattern <= 0xFF; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern << 8);
    expect_same(e5m2_to_float(static_cast<std::uint8_t>(pattern)), static_cast<float>(std::bit_cast<_Float16>(bits)), pattern);
  }
}

TEST(Convert, E4m3fnHasNoInfinityAndOneNan) {
  EXPECT_TRUE(std::isnan(e4m3fn_to_float(0x7F)));
  EXPECT_TRUE(std::isnan(e4m3fn_to_float(0xFF)));
  EXPECT_EQ(e4m3fn_to_float(0x7E), 448.0F);
  EXPECT_EQ(e4m3fn_to_float(0xFE), -448.0F);
  EXPECT_EQ(e4m3fn_to_float(0x78), 256.0F);
  EXPECT_EQ(e4m3fn_to_float(0x38), 1.0F);
  EXPECT_EQ(e4m3fn_to_float(0x08), 0x1p-6F);
  EXPECT_EQ(e4m3fn_to_float(0x07), 7 * 0x1p-9F);
  EXPECT_EQ(e4m3fn_to_float(0x01), 0x1p-9F);
  EXPECT_EQ(e4m3fn_to_float(0x00), 0.0F);
  EXPECT_TRUE(std::signbit(e4m3fn_to_float(0x80)));
  // Magnitudes rise with their patterns.
  for (unsigned pattern = 1; pattern < 0x7F; ++pattern) {
    EXPECT_GT(e4m3fn_to_float(static_cast<std::uint8_t>(pattern)), e4m3fn_to_float(static_cast<std::uint8_t>(pattern - 1)));
  }
}

TEST(Convert, Fp32SurvivesAndUnknownFormatsAreNan) {
  for (const float value : {0.0F, -0.0F, 1.5F, -3.0e38F, std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    const auto pattern = std::bit_cast<std::uint32_t>(value);
    expect_same(decode(DType::kFp32, pattern), value, pattern);
  }
  EXPECT_TRUE(std::isnan(decode(DType::kUnspecified, 0)));
  EXPECT_TRUE(std::isnan(decode(DType::kFp64, 0)));
}

}  // namespace
}  // namespace scalewatch

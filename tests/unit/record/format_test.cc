#include "cuda/record/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace scalewatch {
namespace {

constexpr DType kAll[] = {DType::kFp64, DType::kFp32, DType::kFp16, DType::kBf16, DType::kE4m3fn, DType::kE5m2};

TEST(Format, LimitsAreThoseOfTheDesign) {
  const FormatLimits fp16 = format_limits(DType::kFp16);
  EXPECT_EQ(fp16.max_finite, 65504);
  EXPECT_EQ(fp16.smallest_normal, 0x1p-14);
  EXPECT_EQ(fp16.flush.value(), 0x1p-25);
  EXPECT_EQ(fp16.over.value(), 65520);
  EXPECT_FALSE(fp16.over_is_strict);
  const FormatLimits e4m3fn = format_limits(DType::kE4m3fn);
  EXPECT_EQ(e4m3fn.max_finite, 448);
  EXPECT_EQ(e4m3fn.over.value(), 464);
  EXPECT_TRUE(e4m3fn.over_is_strict);
  EXPECT_EQ(format_limits(DType::kE5m2).max_finite, 57344);
  EXPECT_EQ(format_limits(DType::kE5m2).over.value(), 61440);
  EXPECT_EQ(format_limits(DType::kFp64).max_finite, std::numeric_limits<double>::max());
  EXPECT_EQ(format_limits(DType::kFp32).max_finite, std::numeric_limits<float>::max());
}

// The compiler's own conversions round to nearest even.
TEST(Format, Fp16AndFp32ThresholdsAreWhereConversionTurns) {
  const auto to_fp16 = [](double x) { return static_cast<double>(static_cast<_Float16>(x)); };
  EXPECT_TRUE(std::isinf(to_fp16(65520)));
  EXPECT_EQ(to_fp16(std::nextafter(65520.0, 0.0)), 65504);
  EXPECT_EQ(to_fp16(0x1p-25), 0);
  EXPECT_EQ(to_fp16(std::nextafter(0x1p-25, 1.0)), 0x1p-24);
  const FormatLimits fp32 = format_limits(DType::kFp32);
  const auto to_fp32 = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  EXPECT_TRUE(std::isinf(to_fp32(fp32.over.value())));
  EXPECT_EQ(to_fp32(std::nextafter(fp32.over.value(), 0.0)), fp32.max_finite);
  EXPECT_EQ(to_fp32(fp32.flush.value()), 0);
  EXPECT_EQ(to_fp32(std::nextafter(fp32.flush.value(), 1.0)), fp32.smallest_subnormal);
}

TEST(Format, LimitsFollowFromTheLayout) {
  for (const DType format : kAll) {
    const FormatLayout layout = format_layout(format);
    const FormatLimits limits = format_limits(format);
    EXPECT_EQ(limits.smallest_normal, std::ldexp(1.0, 1 - layout.bias));
    EXPECT_EQ(limits.smallest_subnormal, std::ldexp(1.0, 1 - layout.bias - layout.mantissa_bits));
    EXPECT_EQ(limits.flush.mantissa, 1U);
    EXPECT_EQ(limits.flush.exponent, -layout.bias - layout.mantissa_bits);  // half of the smallest subnormal
    // over lies half a last place above the largest finite value.
    const std::uint64_t largest = layout.first_non_finite - 1;
    const std::uint64_t one = std::uint64_t{1} << layout.mantissa_bits;
    const std::uint64_t significand = (largest & (one - 1)) | one;
    const int unit = static_cast<int>(largest >> layout.mantissa_bits) - layout.bias - layout.mantissa_bits;
    EXPECT_EQ(limits.max_finite, std::ldexp(static_cast<double>(significand), unit));
    EXPECT_EQ(static_cast<long double>(limits.over.mantissa) * std::exp2(static_cast<long double>(limits.over.exponent)),
              (static_cast<long double>(significand) + 0.5L) * std::exp2(static_cast<long double>(unit)));
    // The tie goes to the even neighbour.
    EXPECT_EQ(limits.over_is_strict, significand % 2 == 0);
  }
}

TEST(Format, SizesOfElements) {
  EXPECT_EQ(element_size(DType::kFp64), 8U);
  EXPECT_EQ(element_size(DType::kFp32), 4U);
  EXPECT_EQ(element_size(DType::kFp16), 2U);
  EXPECT_EQ(element_size(DType::kBf16), 2U);
  EXPECT_EQ(element_size(DType::kE4m3fn), 1U);
  EXPECT_EQ(element_size(DType::kE5m2), 1U);
  EXPECT_EQ(element_size(DType::kUnspecified), 0U);
}

TEST(Format, HeadroomIsInOctavesOfTheUnscaledMaximum) {
  Record record;
  record.numel = 2;
  record.min = -32752;  // half of fp16's largest
  record.max = 1;
  EXPECT_DOUBLE_EQ(headroom(record, DType::kFp16, 1), 1);
  EXPECT_DOUBLE_EQ(headroom(record, DType::kFp16, 65536), 17);
  EXPECT_DOUBLE_EQ(headroom(record, DType::kFp16, 0x1p-3), -2);
  EXPECT_DOUBLE_EQ(headroom(record, DType::kFp16, 0), 1);  // no scale
  EXPECT_TRUE(std::isnan(headroom(record, DType::kUnspecified, 1)));
  record.min = record.max = 0;
  EXPECT_EQ(headroom(record, DType::kFp16, 1), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(headroom(Record{}, DType::kFp16, 1)));
}

TEST(Format, ScalesThatCannotBeCountAsOne) {
  EXPECT_EQ(effective_scale(0), 1);
  EXPECT_EQ(effective_scale(-2), 1);
  EXPECT_EQ(effective_scale(std::numeric_limits<double>::infinity()), 1);
  EXPECT_EQ(effective_scale(std::numeric_limits<double>::quiet_NaN()), 1);
  EXPECT_EQ(effective_scale(1024), 1024);
}

TEST(Record, DerivedValues) {
  Record record;
  EXPECT_TRUE(std::isnan(record.absmax()));
  EXPECT_EQ(record.finite(), 0U);
  record.numel = 10;
  record.nan = 1;
  record.pos_inf = 2;
  record.neg_inf = 3;
  record.min = -7;
  record.max = 3;
  EXPECT_EQ(record.non_finite(), 6U);
  EXPECT_EQ(record.finite(), 4U);
  EXPECT_EQ(record.absmax(), 7);
  record.nan = 100;
  EXPECT_EQ(record.finite(), 0U);
}

}  // namespace
}  // namespace scalewatch

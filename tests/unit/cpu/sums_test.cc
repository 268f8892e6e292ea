// Data that is hard on sums: cancellation, great ranges, long arrays, the ends of each format's range.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cuda/cpu/measure.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

class Sums : public OnEachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Cpu, Sums, ::testing::ValuesIn(instruction_sets()), name_of_target);

void check(const std::vector<float>& values, const std::string& what) {
  const Reference want = reference(values.data(), DType::kFp32, values.size(), DType::kFp16, 1);
  expect_matches(measure(values.data(), DType::kFp32, values.size(), DType::kFp16, 1), want, what);
}

void check(const std::vector<double>& values, const std::string& what) {
  const Reference want = reference(values.data(), DType::kFp64, values.size(), DType::kFp16, 1);
  expect_matches(measure(values.data(), DType::kFp64, values.size(), DType::kFp16, 1), want, what);
}

TEST_P(Sums, LongArraysOfOneValue) {
  // A plain float sum stalls at 2^24, and drifts long before.
  check(std::vector<float>(3'000'001, 0.1F), "0.1");
  check(std::vector<float>(3'000'001, -1e-7F), "-1e-7");
}

TEST_P(Sums, SmallElementsBesideGreatOnes) {
  std::vector<float> values(100'000, 1e-4F);
  for (std::size_t i = 0; i < values.size(); i += 1000) values[i] = 1e4F;
  check(values, "1e8 apart");
  for (std::size_t i = 0; i < values.size(); i += 1000) values[i] = 1e25F;
  check(values, "beyond the squares of float");
  for (float& value : values) value *= 1e-30F;
  check(values, "below the squares of float");
}

TEST_P(Sums, Cancellation) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (int i = 0; i < 50'000; ++i) {
    const float x = normal(random) * 1e3F;
    values.insert(values.end(), {x, -x, 1e-3F});
  }
  check(values, "nearly all cancels");
}

TEST_P(Sums, EveryMagnitudeOfFloat) {
  for (int exponent = -149; exponent < 128; ++exponent) {
    std::vector<float> values;
    for (int i = 0; i < 600; ++i) values.push_back(std::ldexp(i % 3 == 0 ? -1.0F : 1.99F, exponent));
    check(values, std::to_string(exponent));
    // The same beside zeros and one NaN: the careful path.
    values[300] = std::numeric_limits<float>::quiet_NaN();
    values[301] = 0;
    check(values, std::to_string(exponent) + " with NaN");
  }
}

TEST_P(Sums, DoublesAtTheEndOfTheirRangeSaturate) {
  constexpr double kMax = std::numeric_limits<double>::max();
  for (const int exponent : {-1074, -1000, -500, 0, 470, 480, 500, 511, 900, 959, 960, 1000}) {
    std::vector<double> values;
    for (int i = 0; i < 600; ++i) values.push_back(std::ldexp(i % 3 == 0 ? -1.0 : 1.75, exponent));
    const Reference want = reference(values.data(), DType::kFp64, values.size(), DType::kFp16, 1);
    const Record got = measure(values.data(), DType::kFp64, values.size(), DType::kFp16, 1);
    EXPECT_LE(std::fabs(static_cast<long double>(got.sum) - want.record.sum), 1e-6L * want.sum_of_magnitudes) << exponent;
    EXPECT_TRUE(std::isfinite(got.sum_sq)) << exponent;
    if (exponent >= -500) {  // below it squares may be lost, as the header says
      EXPECT_LE(std::fabs(static_cast<long double>(got.sum_sq) - want.record.sum_sq), 1e-6L * want.record.sum_sq) << exponent;
    }
  }
  const Record great = measure(std::vector<double>(1000, kMax).data(), DType::kFp64, 1000, DType::kFp64, 1);
  EXPECT_GE(great.sum, kMax * 0.9999999);
  EXPECT_TRUE(std::isfinite(great.sum));
  EXPECT_EQ(great.max, std::numeric_limits<float>::max());
  const Record small = measure(std::vector<double>(1000, -1e-300).data(), DType::kFp64, 1000, DType::kFp64, 1);
  EXPECT_EQ(small.absmin_nonzero, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(small.max, -std::numeric_limits<float>::denorm_min());
  // Opposite ends cancel instead of giving NaN.
  std::vector<double> both(1000, kMax);
  for (std::size_t i = 0; i < both.size(); i += 2) both[i] = -kMax;
  EXPECT_EQ(measure(both.data(), DType::kFp64, both.size(), DType::kFp64, 1).sum, 0);
  check(std::vector<double>(5000, 0.1), "plain doubles");
}

TEST_P(Sums, AreStoredWith24Bits) {
  std::vector<float> values(777, 0.1F);
  const Record record = measure(values.data(), DType::kFp32, values.size(), DType::kFp16, 1);
  EXPECT_EQ(record.sum, static_cast<double>(static_cast<float>(record.sum)));
  EXPECT_EQ(record.sum_sq, static_cast<double>(static_cast<float>(record.sum_sq)));
}

}  // namespace
}  // namespace scalewatch::cpu_test

#include "cuda/record/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/record/exponents.h"

namespace scalewatch {
namespace {

Record sample(std::uint64_t n, float min, float max, float absmin, double sum) {
  Record record;
  record.numel = 100 * n;
  record.nan = n;
  record.pos_inf = 2 * n;
  record.neg_inf = 3 * n;
  record.zero = 4 * n;
  record.subnormal = 6 * n;
  record.flushed = 5 * n;
  record.over = 7 * n;
  record.sum = sum;
  record.sum_sq = sum * sum;
  record.min = min;
  record.max = max;
  record.absmin_nonzero = absmin;
  return record;
}

void expect_equal_but_sums(const Record& a, const Record& b) {
  EXPECT_EQ(a.numel, b.numel);
  EXPECT_EQ(a.nan, b.nan);
  EXPECT_EQ(a.pos_inf, b.pos_inf);
  EXPECT_EQ(a.neg_inf, b.neg_inf);
  EXPECT_EQ(a.zero, b.zero);
  EXPECT_EQ(a.subnormal, b.subnormal);
  EXPECT_EQ(a.flushed, b.flushed);
  EXPECT_EQ(a.over, b.over);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.max, b.max);
  EXPECT_EQ(a.absmin_nonzero, b.absmin_nonzero);
}

TEST(Merge, CountsAddAndExtremesCombine) {
  Record record = sample(1, -1, 5, 0.25F, 10);
  merge(record, sample(2, -3, 4, 0.125F, -4));
  EXPECT_EQ(record.numel, 300U);
  EXPECT_EQ(record.nan, 3U);
  EXPECT_EQ(record.pos_inf, 6U);
  EXPECT_EQ(record.neg_inf, 9U);
  EXPECT_EQ(record.zero, 12U);
  EXPECT_EQ(record.subnormal, 18U);
  EXPECT_EQ(record.flushed, 15U);
  EXPECT_EQ(record.over, 21U);
  EXPECT_EQ(record.sum, 6);
  EXPECT_EQ(record.sum_sq, 116);
  EXPECT_EQ(record.min, -3);
  EXPECT_EQ(record.max, 5);
  EXPECT_EQ(record.absmin_nonzero, 0.125F);
}

TEST(Merge, AnAbsentExtremeNeverHidesAPresentOne) {
  const Record full = sample(1, -1, 5, 0.25F, 10);
  Record left = full;
  merge(left, Record{});
  expect_equal_but_sums(left, full);
  Record right;
  merge(right, full);
  expect_equal_but_sums(right, full);
  Record none;
  merge(none, Record{});
  EXPECT_TRUE(std::isnan(none.min) && std::isnan(none.max) && std::isnan(none.absmin_nonzero));
}

TEST(Merge, CountsAndExtremesDoNotDependOnOrderOrGrouping) {
  const Record a = sample(1, -1, 5, 0.25F, 10);
  const Record b = sample(3, -8, 2, 0.5F, 1);
  Record c;
  c.numel = 7;
  c.nan = 7;
  Record left = a;
  merge(left, b);
  merge(left, c);
  Record inner = b;
  merge(inner, c);
  Record right = a;
  merge(right, inner);
  expect_equal_but_sums(left, right);
  Record back = c;
  merge(back, b);
  merge(back, a);
  expect_equal_but_sums(left, back);
}

TEST(Merge, SumsSaturate) {
  Record record = sample(1, 0, 1, 1, 0);
  record.sum = -std::numeric_limits<double>::max();
  record.sum_sq = std::numeric_limits<double>::max();
  merge(record, record);
  EXPECT_EQ(record.sum, -std::numeric_limits<double>::max());
  EXPECT_EQ(record.sum_sq, std::numeric_limits<double>::max());
}

TEST(RoundTo24Bits, IsFloatsRoundingWithDoublesRange) {
  for (const double x : {0.0, 1.0, 1.0 / 3, -2.0 / 3, 1e30, 12345.678901234, 16777217.0, 16777219.0, 16777218.9999}) {
    EXPECT_EQ(round_to_24_bits(x), static_cast<double>(static_cast<float>(x))) << x;
  }
  EXPECT_TRUE(std::signbit(round_to_24_bits(-0.0)));
  EXPECT_EQ(round_to_24_bits(16777217e200), round_to_24_bits(round_to_24_bits(16777217e200)));
  EXPECT_NEAR(round_to_24_bits(1e300 / 3) / (1e300 / 3), 1, 0x1p-24);
  EXPECT_EQ(round_to_24_bits(0x1p-1074), 0x1p-1074);
  EXPECT_EQ(round_to_24_bits(0x1000001p-1074), 0x1000000p-1074);
  EXPECT_EQ(round_to_24_bits(-0x1000003p-1074), -0x1000004p-1074);
  EXPECT_EQ(round_to_24_bits(0x1.FFFFFEp-1023), 0x1.FFFFFEp-1023);
  EXPECT_EQ(round_to_24_bits(0x1.FFFFFFp-1023), 0x1p-1022);
  EXPECT_TRUE(std::isfinite(round_to_24_bits(std::numeric_limits<double>::max())));
  EXPECT_TRUE(std::isfinite(round_to_24_bits(-std::numeric_limits<double>::max())));
  EXPECT_TRUE(std::isinf(round_to_24_bits(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(round_to_24_bits(std::numeric_limits<double>::quiet_NaN())));
}

TEST(RoundTo24Bits, RoundsBothSumsOfARecord) {
  Record record;
  record.sum = 16777217;
  record.sum_sq = 1.0 / 3;
  round_sums(record);
  EXPECT_EQ(record.sum, 16777216);
  EXPECT_EQ(record.sum_sq, static_cast<double>(1.0F / 3));
}

TEST(ExponentCounts, MergeAddsAndBinsAreClamped) {
  EXPECT_EQ(ExponentCounts::bin(-149), 0U);
  EXPECT_EQ(ExponentCounts::bin(-1074), 0U);
  EXPECT_EQ(ExponentCounts::bin(127), ExponentCounts::kBins - 1);
  EXPECT_EQ(ExponentCounts::bin(1023), ExponentCounts::kBins - 1);
  ExponentCounts a;
  ExponentCounts b;
  a.counts[3] = 1;
  b.counts[3] = 2;
  b.counts[4] = 5;
  merge(a, b);
  EXPECT_EQ(a.counts[3], 3U);
  EXPECT_EQ(a.counts[4], 5U);
}

}  // namespace
}  // namespace scalewatch

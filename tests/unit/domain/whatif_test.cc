// Another policy over recorded gradients: exact for the one that ran, and honest about what was not recorded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "server/domain/whatif.h"
#include "server/domain/whatif_best.h"
#include "server/domain/whatif_underflow.h"

namespace scalewatch::domain {
namespace {

constexpr double kFp16Max = 65504;

// What a run records whose largest unscaled gradients are these: non-finite ones say no more than that.
std::vector<WhatIfAttempt> recorded(Policy& policy, const std::vector<double>& largest) {
  std::vector<WhatIfAttempt> out;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    WhatIfAttempt attempt;
    attempt.attempt = i + 1;
    attempt.scale = policy.scale();
    const bool over = largest[i] * attempt.scale > kFp16Max;
    attempt.non_finite = over;
    if (!over) attempt.room = kFp16Max / largest[i];
    attempt.skipped = over && policy.skips();
    policy.update(over);
    out.push_back(attempt);
  }
  return out;
}

std::vector<double> restless(std::size_t count) {
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(std::exp2(3 * std::sin(static_cast<double>(i) * 0.7)));
  return out;
}

TEST(WhatIf, ReplayOfThePolicyThatRanIsExact) {
  for (const auto* name : {"pytorch", "megatron", "deepspeed", "flax"}) {
    const PolicyParameters parameters{{"init_scale", 65536}};
    const auto attempts = recorded(*make_policy(name, parameters), restless(300));
    const auto policy = make_policy(name, parameters);
    const auto result = what_if(*policy, attempts);
    ASSERT_EQ(result.steps.size(), attempts.size()) << name;
    EXPECT_EQ(result.undecided, 0U) << name;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      EXPECT_EQ(result.steps[i].skipped, attempts[i].skipped) << name << ' ' << i;
      EXPECT_EQ(result.steps[i].scale, attempts[i].scale) << name << ' ' << i;
    }
  }
}

// Where nothing but sizes matters and all of them were recorded, the prediction is what the other policy really does.
TEST(WhatIf, APolicyWithSmallerScalesIsPredictedExactlyFromARunThatNeverSkipped) {
  const auto sizes = restless(300);
  const PolicyParameters calm{{"init_scale", 64}, {"growth_interval", 100'000}};
  const auto attempts = recorded(*make_policy("pytorch", calm), sizes);
  const PolicyParameters other{{"init_scale", 65536}, {"growth_interval", 20}};
  const auto truth = recorded(*make_policy("pytorch", other), sizes);
  const auto result = what_if(*make_policy("pytorch", other), attempts);
  EXPECT_EQ(result.undecided, 0U);
  EXPECT_GT(result.skipped, 0U);
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_EQ(result.steps[i].skipped, truth[i].skipped) << i;
}

TEST(WhatIf, ASmallerScaleThanTheOneThatOverflowedIsUndecidedAndALargerOneIsNot) {
  WhatIfAttempt attempt;
  attempt.scale = 1024;
  attempt.skipped = true;
  attempt.non_finite = true;
  EXPECT_EQ(overflows(attempt, 1024), true);
  EXPECT_EQ(overflows(attempt, 2048), true);
  EXPECT_EQ(overflows(attempt, 512), std::nullopt);
  attempt.room = 600;  // of the tensors that stayed finite
  EXPECT_EQ(overflows(attempt, 512), std::nullopt);
  EXPECT_EQ(overflows(attempt, 700), true);
  attempt.scale_no_help = true;
  EXPECT_EQ(overflows(attempt, 1), true);
}

TEST(WhatIf, AttemptsWithoutARecordAreTakenAsTheyWent) {
  std::vector<WhatIfAttempt> attempts(3);
  for (auto& attempt : attempts) attempt.scale = 8;
  attempts[1].skipped = true;
  const auto result = what_if(*make_policy("pytorch", {{"init_scale", 4}}), attempts);
  EXPECT_EQ(result.skipped, 1U);
  EXPECT_EQ(result.unknown, 3U);
  EXPECT_EQ(result.undecided, 0U);
}

// What a record keeps of these magnitudes.
Spread spread_of(const std::vector<double>& magnitudes) {
  Spread out;
  out.target = DType::kFp16;
  const auto limits = format_limits(out.target);
  for (const double x : magnitudes) {
    out.absmin = out.elements == 0 ? x : std::min(out.absmin, x);
    out.absmax = std::max(out.absmax, x);
    out.elements += 1;
    out.subnormal += x < limits.smallest_normal ? 1 : 0;
    out.flushed += x <= limits.flush.value() ? 1 : 0;
  }
  return out;
}

TEST(WhatIfUnderflow, BoundsHoldTheTruthUnderEveryScaleAndAreExactWhereTheRecordCounted) {
  std::vector<double> magnitudes;
  for (int i = 0; i < 400; ++i) magnitudes.push_back(std::exp2(-40 + 0.11 * i));
  const auto spread = spread_of(magnitudes);
  for (const auto format : {DType::kFp16, DType::kBf16, DType::kE5m2}) {
    const auto limits = format_limits(format);
    for (int octave = -20; octave <= 30; ++octave) {
      const double scale = std::exp2(octave);
      double subnormal = 0;
      double flushed = 0;
      for (const double x : magnitudes) {
        subnormal += x * scale < limits.smallest_normal ? 1 : 0;
        flushed += x * scale <= limits.flush.value() ? 1 : 0;
      }
      const auto told = underflow(spread, format, scale);
      EXPECT_LE(told.subnormal.low, subnormal) << octave;
      EXPECT_GE(told.subnormal.high, subnormal) << octave;
      EXPECT_LE(told.flushed.low, flushed) << octave;
      EXPECT_GE(told.flushed.high, flushed) << octave;
    }
  }
  const auto unscaled = underflow(spread, DType::kFp16, 1);
  EXPECT_EQ(unscaled.subnormal.low, spread.subnormal);
  EXPECT_EQ(unscaled.subnormal.high, spread.subnormal);
  EXPECT_EQ(unscaled.flushed.low, spread.flushed);
  EXPECT_EQ(unscaled.flushed.high, spread.flushed);
  // bf16's range holds all of it.
  EXPECT_EQ(underflow(spread, DType::kBf16, 1).subnormal.high, 0);
  EXPECT_EQ(elements_over(spread, DType::kBf16).high, 0);
}

TEST(WhatIfUnderflow, AHistogramMakesTheSubnormalShareExactUnderEveryPowerOfTwo) {
  std::vector<double> magnitudes;
  for (int i = 0; i < 400; ++i) magnitudes.push_back(std::exp2(-40 + 0.11 * i));
  auto spread = spread_of(magnitudes);
  spread.first_octave = -40;
  spread.octaves.assign(44, 0);
  for (const double x : magnitudes) spread.octaves[static_cast<std::size_t>(std::ilogb(x) + 40)] += 1;
  for (int octave = -20; octave <= 30; ++octave) {
    const double scale = std::exp2(octave);
    const auto below = [&](double limit) {
      return static_cast<double>(
          std::count_if(magnitudes.begin(), magnitudes.end(), [&](double x) { return x * scale < limit; }));
    };
    const double subnormal = below(0x1p-14);
    const auto told = underflow(spread, DType::kFp16, scale);
    EXPECT_EQ(told.subnormal.low, subnormal) << octave;
    EXPECT_EQ(told.subnormal.high, subnormal) << octave;
    // What rounds to zero ends at 2^-25 itself, which is in the next octave: at most that octave is open.
    const double flushed = below(std::nextafter(0x1p-25, 1));
    EXPECT_LE(told.flushed.low, flushed) << octave;
    EXPECT_GE(told.flushed.high, flushed) << octave;
    EXPECT_LE(told.flushed.high, below(0x1p-24)) << octave;
  }
  // Between powers of two the octave that holds the limit is open.
  const auto between = underflow(spread, DType::kFp16, 3);
  EXPECT_LT(between.subnormal.low, between.subnormal.high);
  EXPECT_LE(between.subnormal.high - between.subnormal.low, 10);
}

TEST(WhatIfUnderflow, WhatRoundsOverIsToldOnlyWhereItIsKnown) {
  const auto spread = spread_of({1e-3, 1e5, 2e5});
  const auto over = elements_over(spread, DType::kFp16);
  EXPECT_EQ(over.low, 1);   // the largest of them is the only one that is known
  EXPECT_EQ(over.high, 2);  // and so is the smallest
  EXPECT_EQ(elements_over(spread_of({1.0, 2.0}), DType::kFp16).high, 0);
}

std::vector<Measured> measured(const std::vector<double>& largest, double decades) {
  std::vector<Measured> out;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    std::vector<double> magnitudes;
    for (int k = 0; k < 50; ++k) magnitudes.push_back(largest[i] * std::pow(10, -decades * k / 50));
    out.push_back({i, 0, spread_of(magnitudes)});
  }
  return out;
}

TEST(WhatIfBest, FindsSettingsThatSkipLessAndKeepTheBound) {
  const auto sizes = restless(300);
  const PolicyParameters ran{{"init_scale", 0x1p20}, {"growth_interval", 10}};
  const auto attempts = recorded(*make_policy("pytorch", ran), sizes);
  const auto before = what_if(*make_policy("pytorch", ran), attempts);
  ASSERT_GT(before.skipped, 10U);
  const auto best = best_settings("pytorch", ran, attempts, measured(sizes, 5), 0.5);
  ASSERT_TRUE(best);
  EXPECT_TRUE(best->within);
  EXPECT_LE(best->underflow, 0.5);
  EXPECT_LT(best->result.skipped, before.skipped / 4);
  EXPECT_EQ(best->searched, (std::vector<std::string>{"init_scale", "growth_interval", "backoff_factor"}));
  // What it tells is what a replay of its settings gives.
  const auto again = what_if(*make_policy("pytorch", best->parameters), attempts);
  EXPECT_EQ(again.skipped, best->result.skipped);
  EXPECT_EQ(again.undecided, best->result.undecided);
}

TEST(WhatIfBest, SaysWhenNothingKeepsTheBoundAndWhenThereIsNothingToSearch) {
  const auto sizes = restless(50);
  const PolicyParameters ran{{"init_scale", 1024}};
  const auto attempts = recorded(*make_policy("pytorch", ran), sizes);
  const auto best = best_settings("pytorch", ran, attempts, measured(sizes, 40), 0.0001);
  ASSERT_TRUE(best);
  EXPECT_FALSE(best->within);
  EXPECT_FALSE(best_settings("static", {{"init_scale", 128}}, attempts, {}, 1));
}

}  // namespace
}  // namespace scalewatch::domain

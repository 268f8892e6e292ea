// Another policy over recorded gradients: exact for the one that ran, and honest about what was not recorded.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "server/domain/whatif.h"

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

}  // namespace
}  // namespace scalewatch::domain

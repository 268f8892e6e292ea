// Rules over the loss and the gradient norm.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

Driver::Edit loss_of(double loss) {
  return [=](AttemptDigest& digest) { digest.loss = loss; };
}
Driver::Edit norm_of(double norm) {
  return [=](AttemptDigest& digest) { digest.grad_norm = norm; };
}
double wave(int i) {
  return std::sin(i * 12.9898) * 0.5;
}

TEST(LossSpike, NeedsThreeInARowFarAboveTheNoise) {
  Driver driver;
  for (int i = 0; i < 60; ++i) driver.attempt(false, loss_of(2 + 0.1 * wave(i)));
  driver.attempts(2, false, loss_of(4));
  driver.attempt(false, loss_of(2));
  EXPECT_EQ(driver.find("LossSpike"), nullptr);
  driver.attempts(3, false, loss_of(4));
  ASSERT_TRUE(driver.open("LossSpike"));
  EXPECT_EQ(driver.find("LossSpike")->severity, Severity::kWarning);
  EXPECT_EQ(driver.find("LossSpike")->first_attempt, 64u);
  for (int i = 0; i < 50; ++i) driver.attempt(false, loss_of(2 + 0.1 * wave(i)));
  EXPECT_FALSE(driver.open("LossSpike"));
  EXPECT_EQ(driver.count("LossSpike", Change::kOpened), 1);
}

TEST(LossSpike, IsSilentOnNoiseOnAFallAndWithFewSamples) {
  Driver noisy;
  for (int i = 0; i < 300; ++i) noisy.attempt(false, loss_of(2 + wave(i)));
  EXPECT_EQ(noisy.find("LossSpike"), nullptr);
  Driver few;
  few.attempts(10, false, loss_of(2));
  few.attempts(9, false, loss_of(5));
  EXPECT_EQ(few.find("LossSpike"), nullptr);
  Driver steady;  // no noise at all: 5% of the median is the least
  steady.attempts(50, false, loss_of(2));
  steady.attempts(5, false, loss_of(2.09));
  EXPECT_EQ(steady.find("LossSpike"), nullptr);
  steady.attempts(3, false, loss_of(2.2));
  EXPECT_NE(steady.find("LossSpike"), nullptr);
}

TEST(LossSpike, OneJumpSufficesWhereTheScalerBacksOffTwice) {
  Driver driver;
  driver.attempt(false, loss_of(0.166));
  driver.attempt(true, loss_of(4.97));
  EXPECT_EQ(driver.find("LossSpike"), nullptr);
  driver.attempt(true, loss_of(5.3));
  ASSERT_TRUE(driver.open("LossSpike"));
  EXPECT_EQ(driver.find("LossSpike")->first_attempt, 2u);
  Driver once;
  once.attempt(false, loss_of(0.166));
  once.attempt(true, loss_of(4.97));
  once.attempts(5, false, loss_of(0.2));
  EXPECT_EQ(once.find("LossSpike"), nullptr);
}

TEST(GradNormSpike, FiresAtTheThirdOfFiveOctavesOrOnceOfEight) {
  Driver driver;
  for (int i = 0; i < 30; ++i) driver.attempt(false, norm_of(1 + wave(i)));
  for (int i = 0; i < 2; ++i) {
    driver.attempt(false, norm_of(40));
    driver.attempts(3, false, norm_of(1));
  }
  EXPECT_EQ(driver.find("GradNormSpike"), nullptr);
  driver.attempt(false, norm_of(40));
  ASSERT_TRUE(driver.open("GradNormSpike"));
  EXPECT_EQ(driver.find("GradNormSpike")->severity, Severity::kWarning);
  driver.attempts(50, false, norm_of(1));
  EXPECT_FALSE(driver.open("GradNormSpike"));
  Driver once;
  once.attempts(20, false, norm_of(1));
  once.attempt(false, norm_of(300));
  EXPECT_TRUE(once.open("GradNormSpike"));
}

TEST(GradNormSpike, IsSilentWhereItCannotKnow) {
  Driver few;
  few.attempts(19, false, norm_of(1));
  few.attempt(false, norm_of(1000));
  EXPECT_EQ(few.find("GradNormSpike"), nullptr);
  Driver far;  // three in 60 samples
  far.attempts(20, false, norm_of(1));
  for (int i = 0; i < 5; ++i) {
    far.attempt(false, norm_of(40));
    far.attempts(15, false, norm_of(1));
  }
  EXPECT_EQ(far.find("GradNormSpike"), nullptr);
  Driver scaled;  // the norm under a scale that doubles
  scaled.attempts(50, false, [](AttemptDigest& digest) {
    digest.grad_norm = *digest.scalers[0].scale_before;
    digest.grad_norm_scaled = true;
  });
  EXPECT_EQ(scaled.find("GradNormSpike"), nullptr);
  Driver infinite;
  infinite.attempts(30, false, norm_of(1));
  infinite.attempts(3, true, norm_of(INFINITY));
  EXPECT_EQ(infinite.find("GradNormSpike"), nullptr);
}

TEST(GradNormSpike, ARecordThatStandsForManyAttemptsNeedsOneBefore) {
  Driver driver;
  driver.next = 100;
  driver.attempt(false, norm_of(0.026));
  driver.next = 200;
  driver.attempt(false, norm_of(21));
  EXPECT_TRUE(driver.open("GradNormSpike"));
}

TEST(LossUnchanged, FiresAfterAThousandAppliedStepsAndResolves) {
  Driver driver;
  for (int i = 0; i < 999; ++i) driver.attempt(false, loss_of(2.3 + 0.1 * wave(i)));
  EXPECT_EQ(driver.find("LossUnchanged"), nullptr);
  for (int i = 0; i < 20; ++i) driver.attempt(false, loss_of(2.3 + 0.1 * wave(i)));
  ASSERT_TRUE(driver.open("LossUnchanged"));
  EXPECT_EQ(driver.find("LossUnchanged")->severity, Severity::kWarning);
  for (int i = 0; i < 400; ++i) driver.attempt(false, loss_of(1.5 + 0.1 * wave(i)));
  EXPECT_FALSE(driver.open("LossUnchanged"));
}

TEST(LossUnchanged, IsSilentWhenItFellWhenResumedAndWithoutALearningRate) {
  Driver learning;
  for (int i = 0; i < 1500; ++i) learning.attempt(false, loss_of(2.3 - 0.0005 * i + 0.1 * wave(i)));
  EXPECT_EQ(learning.find("LossUnchanged"), nullptr);
  Driver resumed;
  for (int i = 0; i < 1500; ++i) {
    resumed.attempt(false, [&](AttemptDigest& digest) {
      digest.step += 5000;
      digest.loss = 2.3 + 0.1 * wave(i);
    });
  }
  EXPECT_EQ(resumed.find("LossUnchanged"), nullptr);
  DriverOptions options;
  options.optimizers[0].lr = 0;
  Driver frozen(options);
  for (int i = 0; i < 1500; ++i) frozen.attempt(false, loss_of(2.3 + 0.1 * wave(i)));
  EXPECT_EQ(frozen.find("LossUnchanged"), nullptr);
}

// A log that tells neither scaler nor format: some trainers print a NaN norm on each healthy skip.
TEST(NonFiniteApplied, ALoneNanNormOfALogIsSilentAndOneWithALossThatIsGoneIsNot) {
  const auto log = [](std::vector<std::pair<double, double>> norm_and_loss) {
    Driver driver({.compute = DType::kUnspecified, .scaler = false});
    driver.attempts(5, false, [](AttemptDigest& digest) { digest.grad_norm = 1; });
    for (const auto& [norm, loss] : norm_and_loss) {
      driver.attempt(false, [norm = norm, loss = loss](AttemptDigest& digest) {
        digest.grad_norm = norm;
        digest.loss = loss;
      });
    }
    return driver.find("NonFiniteApplied") != nullptr;
  };
  EXPECT_FALSE(log({{NAN, 1}, {1, 1}, {NAN, 1.1}, {1, 1}}));
  EXPECT_TRUE(log({{NAN, NAN}}));
  EXPECT_TRUE(log({{NAN, 0}}));
  EXPECT_TRUE(log({{NAN, 1}, {1, NAN}}));
  EXPECT_TRUE(log({{NAN, 1.6}}));
}

}  // namespace
}  // namespace scalewatch::domain

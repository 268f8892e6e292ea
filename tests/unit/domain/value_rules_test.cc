// Rules about NaN and Inf in gradients, weights and the loss.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

Driver::Edit bad(std::uint32_t id, std::uint64_t nan = 1, std::uint64_t inf = 0) {
  return [=](AttemptDigest& digest) {
    digest.observed_gradients = true;
    add_bad(digest, id, nan, inf);
  };
}

TEST(NonFiniteGradient, IsInfoWithBlameAndResolves) {
  Driver driver;
  driver.attempt(false);
  driver.attempt(true, bad(kGrad1, 0, 3));
  ASSERT_TRUE(driver.open("NonFiniteGradient"));
  const Finding& finding = *driver.find("NonFiniteGradient");
  EXPECT_EQ(finding.severity, Severity::kInfo);
  ASSERT_TRUE(finding.blame.has_value());
  EXPECT_EQ(finding.blame->tensor, "layers.1.weight");
  EXPECT_EQ(finding.blame->kind, "inf");
  EXPECT_EQ(finding.blame->inf, 3u);
  driver.attempts(49, false);
  EXPECT_TRUE(driver.open("NonFiniteGradient"));
  driver.attempt(false);
  EXPECT_FALSE(driver.open("NonFiniteGradient"));
}

TEST(NonFiniteGradient, WarnsWhenThreeUnexplainedAttemptsBlameOneTensor) {
  Driver driver;
  driver.attempt(false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(driver.find("NonFiniteGradient") != nullptr && driver.find("NonFiniteGradient")->severity == Severity::kWarning,
              true);
    driver.attempt(true, bad(kGrad1));
    driver.attempts(3, false);
  }
  EXPECT_EQ(driver.find("NonFiniteGradient")->severity, Severity::kWarning);
  EXPECT_EQ(driver.count("NonFiniteGradient", Change::kEscalated), 1);
}

TEST(NonFiniteGradient, DifferentTensorsOrGrowthOrCalibrationStayInfo) {
  Driver different;
  different.attempt(false);
  for (const auto id : {kGrad0, kGrad1, kGrad2, kGrad0, kGrad1, kGrad2}) {
    different.attempt(true, bad(id));
    different.attempts(2, false);
  }
  EXPECT_EQ(different.find("NonFiniteGradient")->severity, Severity::kInfo);

  Driver riding({.parameters = {{"growth_interval", 5.0}}});
  riding.attempt(false);
  for (int i = 0; i < 200; ++i) {
    const bool over = riding.policy->scale() > 65536;
    riding.attempt(over, over ? bad(kGrad2) : Driver::Edit());
  }
  EXPECT_EQ(riding.find("NonFiniteGradient")->severity, Severity::kInfo);

  Driver search({.parameters = {{"init_scale", 0x1p32}}});
  search.attempts(17, true, bad(kGrad1));
  EXPECT_EQ(search.worst(), Severity::kInfo);
}

// A healthy run from 2^16 overflows at its first attempts in about half of all cases: only a search that goes on and on over
// one tensor is more than that.
TEST(NonFiniteGradient, WarnsWhenTheSearchGoesOnOverOneTensorAndForwardIsKnownToBeFinite) {
  const auto clean_forward = [](AttemptDigest& digest) {
    digest.observed_activations = true;
    add_bad(digest, kGrad1, 0, 1);
  };
  Driver driver;
  driver.attempts(5, true, clean_forward);
  EXPECT_EQ(driver.find("NonFiniteGradient")->severity, Severity::kInfo);
  driver.attempt(true, clean_forward);
  EXPECT_EQ(driver.find("NonFiniteGradient")->severity, Severity::kWarning);
  Driver high({.parameters = {{"init_scale", 0x1p17}}});
  high.attempts(6, true, clean_forward);
  EXPECT_EQ(high.find("NonFiniteGradient")->severity, Severity::kInfo);
  Driver unseen;
  unseen.attempts(6, true, bad(kGrad1));
  EXPECT_EQ(unseen.find("NonFiniteGradient")->severity, Severity::kInfo);
}

TEST(NonFiniteApplied, FiresWithoutAScaler) {
  for (const bool scaler : {false, true}) {
    Driver driver({.policy = "none", .compute = DType::kBf16, .scaler = scaler});
    driver.attempts(3, false);
    driver.attempt(false, bad(kGrad1));
    ASSERT_TRUE(driver.open("NonFiniteApplied"));
    const Finding& finding = *driver.find("NonFiniteApplied");
    EXPECT_EQ(finding.severity, Severity::kCritical);
    EXPECT_EQ(finding.first_attempt, 4u);
    EXPECT_EQ(finding.blame->tensor, "layers.1.weight");
    EXPECT_EQ(driver.find("NonFiniteGradient"), nullptr);
    driver.attempts(50, false);
    EXPECT_FALSE(driver.open("NonFiniteApplied"));
  }
}

TEST(NonFiniteApplied, IsSilentWhenTheStepWasSkipped) {
  Driver driver;
  driver.attempt(false);
  driver.attempt(true, bad(kGrad1));
  EXPECT_EQ(driver.find("NonFiniteApplied"), nullptr);
}

TEST(NonFiniteApplied, AFusedKernelSkipsOnExactlyOne) {
  DriverOptions options;
  options.optimizers[0].fused = true;
  const auto with = [](double found) {
    return [=](AttemptDigest& digest) { digest.scalers[0].optimizers[0].found_inf_decided = found; };
  };
  Driver one(options);
  one.attempts(3, true, with(1));
  EXPECT_EQ(one.find("NonFiniteApplied"), nullptr);
  Driver two(options);
  two.attempt(false);
  two.attempt(true, with(2));
  ASSERT_TRUE(two.open("NonFiniteApplied"));
  EXPECT_EQ(two.state.view().skipped, 0u);
}

TEST(NonFiniteApplied, LooksAtTheOptimizerThatOwnsTheTensor) {
  DriverOptions options;
  options.optimizers = {{.name = "adam", .class_name = "Adam", .scaler = 0, .lr = {}, .fused = false},
                        {.name = "other", .class_name = "SGD", .scaler = 0, .lr = {}, .fused = false}};
  // The tensor is adam's. Adam skipped, the other stepped: partial, and nothing bad was applied.
  const auto outcomes = [](bool adam_skips) {
    return [=](AttemptDigest& digest) {
      auto& optimizers = digest.scalers[0].optimizers;
      optimizers[adam_skips ? 1 : 0] = {
          .optimizer = adam_skips ? 1U : 0U, .found_inf_local = 0, .found_inf_decided = 0, .outcome = Outcome::kApplied};
      add_bad(digest, kGrad1, 1);
    };
  };
  Driver skipped(options);
  skipped.attempt(false);
  skipped.attempt(true, outcomes(true));
  EXPECT_EQ(skipped.find("NonFiniteApplied"), nullptr);
  Driver applied(options);
  applied.attempt(false);
  applied.attempt(true, outcomes(false));
  EXPECT_TRUE(applied.open("NonFiniteApplied"));
}

TEST(NonFiniteApplied, ANanNormTellsWithoutRecords) {
  Driver driver({.policy = "none"});
  driver.attempt(false, [](AttemptDigest& digest) { digest.grad_norm = INFINITY; });
  EXPECT_EQ(driver.find("NonFiniteApplied"), nullptr);  // may be the norm's own overflow
  driver.attempt(false, [](AttemptDigest& digest) { digest.grad_norm = NAN; });
  EXPECT_TRUE(driver.open("NonFiniteApplied"));
}

TEST(NonFiniteWeights, StaysOpenUntilTheTensorsAreSeenFinite) {
  Driver driver;
  driver.attempts(3, false, [](AttemptDigest& digest) { digest.observed_parameters = true; });
  driver.attempt(false, [](AttemptDigest& digest) {
    digest.observed_parameters = true;
    add_bad(digest, kWeight1, 5);
    add_bad(digest, kBuffer1, 1);
  });
  ASSERT_TRUE(driver.open("NonFiniteWeights"));
  EXPECT_EQ(driver.find("NonFiniteWeights")->severity, Severity::kCritical);
  driver.attempts(300, false);  // not looked at
  EXPECT_TRUE(driver.open("NonFiniteWeights"));
  driver.attempt(false, [](AttemptDigest& digest) { digest.recovered = {kWeight1}; });
  EXPECT_TRUE(driver.open("NonFiniteWeights"));
  driver.attempt(false, [](AttemptDigest& digest) { digest.recovered = {kBuffer1}; });
  EXPECT_FALSE(driver.open("NonFiniteWeights"));
  EXPECT_EQ(driver.count("NonFiniteWeights", Change::kOpened), 1);
}

TEST(NonFiniteLoss, WarnsWhenSkippedAndIsCriticalWhenItStays) {
  const auto nan_loss = [](AttemptDigest& digest) { digest.loss = NAN; };
  Driver driver;
  driver.attempt(false);
  driver.attempt(true, nan_loss);
  ASSERT_TRUE(driver.open("NonFiniteLoss"));
  EXPECT_EQ(driver.find("NonFiniteLoss")->severity, Severity::kWarning);
  driver.attempt(false);
  driver.attempt(true, nan_loss);
  EXPECT_EQ(driver.find("NonFiniteLoss")->severity, Severity::kWarning);  // not in a row
  driver.attempt(true, nan_loss);
  EXPECT_EQ(driver.find("NonFiniteLoss")->severity, Severity::kCritical);
  driver.attempts(50, false);
  EXPECT_FALSE(driver.open("NonFiniteLoss"));
}

TEST(NonFiniteLoss, IsCriticalAtOnceWhenAppliedOrWithoutAScaler) {
  const auto inf_loss = [](AttemptDigest& digest) { digest.loss = INFINITY; };
  Driver applied;
  applied.attempts(2, false);
  applied.attempt(false, inf_loss);
  EXPECT_EQ(applied.find("NonFiniteLoss")->severity, Severity::kCritical);
  Driver unguarded({.policy = "none", .scaler = false});
  unguarded.attempt(false, inf_loss);
  EXPECT_EQ(unguarded.find("NonFiniteLoss")->severity, Severity::kCritical);
}

TEST(NonFiniteLoss, AnEvaluationOnlyWarns) {
  Driver driver({.scaler = false});
  driver.attempts(4, false, [](AttemptDigest& digest) {
    digest.phase = Phase::kEval;
    digest.loss = NAN;
  });
  ASSERT_TRUE(driver.open("NonFiniteLoss"));
  EXPECT_EQ(driver.find("NonFiniteLoss")->severity, Severity::kWarning);
  EXPECT_EQ(driver.state.view().applied, 0u);
}

}  // namespace
}  // namespace scalewatch::domain

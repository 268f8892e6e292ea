// Advice is specific to the cause: it names the tensor, the number, the parameter and the value to try.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

const Advice* advice(const Finding* finding, const std::string& id) {
  if (finding == nullptr) return nullptr;
  for (const Advice& one : finding->advice) {
    if (one.id == id) return &one;
  }
  return nullptr;
}

bool says(const Finding* finding, const std::string& id, const std::string& words) {
  const Advice* one = advice(finding, id);
  return one != nullptr && one->text.find(words) != std::string::npos;
}

TEST(Advice, IsSortedBoundedAndNeverEmptyAboveInfo) {
  Driver driver({.ranks = 2});
  driver.attempts(3, false);
  driver.attempts(30, true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 0, 1); });
  driver.attempts(3, false, [](AttemptDigest& digest) {
    digest.loss = NAN;
    add_bad(digest, kWeight0, 1);
    add_bad(digest, kGrad1, 1);
  });
  int checked = 0;
  for (const FindingEvent& event : driver.events) {
    const auto& all = event.finding.advice;
    EXPECT_LE(all.size(), 5u);
    if (event.finding.severity > Severity::kInfo) {
      EXPECT_FALSE(all.empty()) << event.finding.rule;
      ++checked;
    }
    for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_GE(all[i].confidence, all[i + 1].confidence);
    for (const Advice& one : all) {
      EXPECT_GT(one.confidence, 0);
      EXPECT_LE(one.confidence, 1);
    }
  }
  EXPECT_GT(checked, 4);
}

TEST(Advice, OverflowInBackward) {
  Driver driver;
  driver.attempts(3, false);
  driver.attempts(5, true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 0, 1); });
  const Finding* finding = driver.find("ConsecutiveSkips");
  EXPECT_TRUE(says(finding, "lower_learning_rate", "from 0.001 to 0.0005"));
  EXPECT_TRUE(says(finding, "fp32_layer", "compute layers.1 in fp32"));
  EXPECT_NE(advice(finding, "clip_after_unscale"), nullptr);
}

TEST(Advice, NothingAppliedYetIsNotTheLearningRate) {
  Driver driver;
  driver.attempts(22, true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 3); });
  EXPECT_EQ(advice(driver.find("NeverApplied"), "lower_learning_rate"), nullptr);
  EXPECT_NE(advice(driver.find("NeverApplied"), "anomaly_mode"), nullptr);
}

TEST(Advice, BadInputPointsAtTheDataOfThatStep) {
  Driver driver({.ranks = 2});
  driver.attempts(3, false);
  driver.attempt(true, [](AttemptDigest& digest) {
    if (digest.rank == 1) digest.input_non_finite = true;
    if (digest.rank == 1) digest.loss = NAN;
  });
  const Finding* finding = driver.find("NonFiniteLoss");
  ASSERT_FALSE(finding->advice.empty());
  EXPECT_EQ(finding->advice.front().id, "look_at_data");
  EXPECT_TRUE(says(finding, "look_at_data", "step 40 on rank 1"));
}

TEST(Advice, PoisonedWeightsNameTheCheckpoint) {
  Driver driver({.policy = "none", .scaler = false});
  driver.attempts(3, false);
  driver.attempt(false, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 1); });
  driver.attempts(2, false);
  driver.attempt(false, [](AttemptDigest& digest) { add_bad(digest, kWeight1, 1); });
  EXPECT_TRUE(says(driver.find("NonFiniteWeights"), "restore_checkpoint", "before step 40"));
  EXPECT_NE(advice(driver.find("NonFiniteApplied"), "skip_non_finite"), nullptr);
}

TEST(Advice, ReductionAndDisagreement) {
  Driver driver({.ranks = 2});
  driver.attempt(false);
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.scalers[0].optimizers[0].found_inf_local = 0;
    add_bad(digest, kGrad1, 0, 1);
    if (digest.rank == 1) digest.scalers[0].scale_after = 65536;
  });
  EXPECT_TRUE(says(driver.find("NonFiniteGradient"), "reduce_in_fp32", "by the 2 ranks"));
  EXPECT_NE(advice(driver.find("RankDisagreement"), "reduce_scale"), nullptr);
}

TEST(Advice, OneRankAloneAgainAndAgainSuspectsItsGpu) {
  Driver driver({.ranks = 4});
  driver.attempts(3, false);
  driver.attempts(6, true, [](AttemptDigest& digest) {
    digest.scalers[0].optimizers[0].found_inf_local = digest.rank == 3 ? 1 : 0;
    add_bad(digest, kGrad1, 1);
  });
  EXPECT_TRUE(says(driver.find("ConsecutiveSkips"), "suspect_gpu", "rank 3 on host node1 (GPU-3)"));
}

TEST(Advice, AScaleThatStaysMissesUpdate) {
  Driver driver;
  driver.attempts(3, false);
  driver.attempts(6, true,
                  [](AttemptDigest& digest) { digest.scalers[0].scale_before = digest.scalers[0].scale_after = 65536; });
  EXPECT_TRUE(says(driver.find("ConsecutiveSkips"), "call_update", "stays at 2^16"));
}

TEST(Advice, TroubleRightAfterARestartRestoresTheScaler) {
  Driver driver;
  driver.send(SegmentOpened{2, driver.now});
  driver.join(0);
  driver.attempt(false);
  driver.attempts(5, true);
  EXPECT_TRUE(says(driver.find("ConsecutiveSkips"), "restore_scaler", "2^16"));
}

}  // namespace
}  // namespace scalewatch::domain

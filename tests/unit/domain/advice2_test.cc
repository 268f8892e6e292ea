// What a practitioner would say to faults of scalers, losses and time; and nothing where nothing is to be done.
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

TEST(Advice, AGrowthThatProbesIsNoReasonToChangeALayer) {
  Driver driver({.parameters = {{"growth_interval", 5.0}}});
  driver.attempts(6, false);
  driver.attempt(true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 0, 1); });
  const Finding* finding = driver.find("NonFiniteGradient");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(advice(finding, "fp32_layer"), nullptr);
  ASSERT_NE(advice(finding, "calm"), nullptr);
  EXPECT_NE(advice(finding, "calm")->text.find("about 1 step for each time"), std::string::npos);
}

TEST(Advice, NeverEmptyAboveInfoForFaultsOfScalersAndLosses) {
  DriverOptions options{.parameters = {{"init_scale", 65536}, {"growth_interval", 2000}}};
  Driver driver(options);
  driver.attempts(25, false, [](AttemptDigest& digest) { digest.grad_norm = 1; });
  driver.attempts(4, false, [](AttemptDigest& digest) {
    digest.loss = 9;
    digest.grad_norm = 1000;
    digest.misuse = {{"of my own", "", false}};
  });
  driver.attempt(false, [](AttemptDigest& digest) { digest.scalers[0].scale_after = 3000; });
  driver.attempts(8, true, [](AttemptDigest& digest) { digest.step = 5; });
  driver.attempts(2, true, [](AttemptDigest& digest) { digest.scalers[0].scale_after = digest.scalers[0].scale_before; });
  driver.attempt(false, [](AttemptDigest& digest) { digest.scalers[0].scale_after = 0x1p50; });
  std::map<std::string, int> rules;
  for (const FindingEvent& event : driver.events) {
    if (event.finding.severity <= Severity::kInfo) continue;
    ++rules[event.finding.rule];
    EXPECT_FALSE(event.finding.advice.empty()) << event.finding.id;
  }
  for (const char* rule : {"LossSpike", "GradNormSpike", "Misuse", "ScalePolicyMismatch", "StepFrozen", "ScaleStuck",
                           "ScaleRunaway", "ScaleDrift"}) {
    EXPECT_TRUE(rules.contains(rule)) << rule;
  }
}

TEST(Advice, ARunThatHadLearntAndEndsAtTheFloorGoesBackToBeforeItsSkips) {
  Driver driver({.policy = "deepspeed", .parameters = {{"init_scale", 64}, {"min_scale", 1}, {"delayed_shift", 1}}});
  driver.attempts(150, false);
  driver.attempts(8, true);
  const Advice* one = advice(driver.find("ScaleAtMinimum"), "resume_earlier");
  ASSERT_NE(one, nullptr);
  EXPECT_NE(one->text.find("from before step 151"), std::string::npos) << one->text;
  Driver young({.policy = "deepspeed", .parameters = {{"init_scale", 64}, {"min_scale", 1}, {"delayed_shift", 1}}});
  young.attempts(1, false);
  young.attempts(8, true);
  EXPECT_EQ(advice(young.find("ScaleAtMinimum"), "resume_earlier"), nullptr);
}

TEST(Advice, AVanishedScaleGoesBackToBeforeItsFirstSkip) {
  Driver driver({.parameters = {{"init_scale", 65536}, {"growth_interval", 2000}}});
  driver.attempts(20, false);
  driver.attempts(150, true);
  const Advice* one = advice(driver.find("ScaleVanished"), "restore_checkpoint");
  ASSERT_NE(one, nullptr);
  EXPECT_NE(one->text.find("before step 21"), std::string::npos) << one->text;
}

}  // namespace
}  // namespace scalewatch::domain

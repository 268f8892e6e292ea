// Rules that follow a scaler: when they fire, escalate, stay silent and resolve.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

DriverOptions from(double init, double interval = 2000) {
  return {.parameters = {{"init_scale", init}, {"growth_interval", interval}}};
}

TEST(FrequentSkippedSteps, FiresAtTheFifthSkipBeyondWhatGrowthExplains) {
  Driver driver;
  driver.attempt(false);
  for (int i = 0; i < 5; ++i) {
    driver.attempt(true);
    driver.attempts(6, false);
  }
  EXPECT_EQ(driver.find("FrequentSkippedSteps"), nullptr);  // 5 - 1 * (0 + 1) = 4
  driver.attempt(true);
  const Finding* finding = driver.find("FrequentSkippedSteps");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_EQ(finding->subject, "default");
  EXPECT_EQ(finding->first_attempt, 2u);
  EXPECT_EQ(finding->last_attempt, 37u);
  EXPECT_EQ(finding->id, "FrequentSkippedSteps/default/1.2");
}

TEST(FrequentSkippedSteps, EscalatesInPlaceAboveAQuarter) {
  Driver driver;
  driver.attempts(20, false);
  for (int i = 0; i < 40; ++i) {
    driver.attempt(true);
    driver.attempt(false);
  }
  EXPECT_EQ(driver.count("FrequentSkippedSteps", Change::kOpened), 1);
  EXPECT_EQ(driver.count("FrequentSkippedSteps", Change::kEscalated), 1);
  EXPECT_EQ(driver.find("FrequentSkippedSteps")->severity, Severity::kCritical);
}

TEST(FrequentSkippedSteps, GrowthExplainsASkipEach) {
  Driver driver(from(65536, 10));
  driver.attempt(false);
  for (int i = 0; i < 100; ++i) {
    driver.attempt(driver.policy->scale() > 65536);  // rides the edge
  }
  EXPECT_EQ(driver.find("FrequentSkippedSteps"), nullptr);
}

TEST(FrequentSkippedSteps, ResolvesOnceAndDoesNotFlap) {
  Driver driver;
  driver.attempt(false);
  for (int i = 0; i < 8; ++i) {
    driver.attempt(true);
    driver.attempts(3, false);
  }
  EXPECT_TRUE(driver.open("FrequentSkippedSteps"));
  driver.attempts(220, false);
  EXPECT_FALSE(driver.open("FrequentSkippedSteps"));
  EXPECT_EQ(driver.count("FrequentSkippedSteps", Change::kOpened), 1);
  EXPECT_EQ(driver.count("FrequentSkippedSteps", Change::kResolved), 1);
}

TEST(ConsecutiveSkips, FiresAtTheFifthNotTheFourth) {
  Driver driver;
  driver.attempt(false);
  driver.attempts(4, true);
  driver.attempt(false);
  driver.attempts(4, true);
  EXPECT_EQ(driver.find("ConsecutiveSkips"), nullptr);
  driver.attempt(true);
  ASSERT_TRUE(driver.open("ConsecutiveSkips"));
  EXPECT_EQ(driver.find("ConsecutiveSkips")->severity, Severity::kCritical);
  EXPECT_EQ(driver.find("ConsecutiveSkips")->first_attempt, 7u);
  EXPECT_EQ(driver.find("ConsecutiveSkips")->first_step, 70);
  driver.attempts(19, false);
  EXPECT_TRUE(driver.open("ConsecutiveSkips"));
  driver.attempt(false);
  EXPECT_FALSE(driver.open("ConsecutiveSkips"));
}

TEST(ConsecutiveSkips, IsSilentWhileTheScaleIsSearched) {
  Driver driver(from(0x1p32));
  driver.attempts(17, true);
  driver.attempts(30, false);
  EXPECT_EQ(driver.worst(), Severity::kInfo);  // the gradients were non-finite, and that is all
}

TEST(ConsecutiveSkips, NamesTheOptimizerOfSeveral) {
  Driver driver({.optimizers = {{.name = "gen", .class_name = "Adam", .scaler = 0, .lr = {}, .fused = false},
                                {.name = "disc", .class_name = "Adam", .scaler = 0, .lr = {}, .fused = false}}});
  driver.attempts(2, false);
  driver.attempts(5, true, [](AttemptDigest& digest) {
    digest.scalers[0].optimizers[0] = {
        .optimizer = 0, .found_inf_local = 0, .found_inf_decided = 0, .outcome = Outcome::kApplied};
  });
  ASSERT_TRUE(driver.open("ConsecutiveSkips"));
  EXPECT_EQ(driver.find("ConsecutiveSkips")->subject, "default/disc");
  EXPECT_EQ(driver.count("ConsecutiveSkips", Change::kOpened), 1);
  EXPECT_EQ(driver.state.view().partial, 5u);
}

TEST(NeverApplied, AllowsTheSearchAndNoMore) {
  Driver driver(from(0x1p16, 2000));
  driver.attempts(15, true);
  EXPECT_EQ(driver.find("NeverApplied"), nullptr);
  driver.attempt(true);  // 2^16 is down to 1
  ASSERT_TRUE(driver.open("NeverApplied"));
  EXPECT_EQ(driver.find("NeverApplied")->severity, Severity::kCritical);
  driver.attempt(false);
  EXPECT_FALSE(driver.open("NeverApplied"));
}

TEST(NeverApplied, CountsAttemptsWhereTheScaleStays) {
  Driver driver({.policy = "static", .parameters = {{"init_scale", 1024}}});
  driver.attempts(15, true);  // log2(1024) + 1 + 4
  EXPECT_EQ(driver.find("NeverApplied"), nullptr);
  driver.attempt(true);
  EXPECT_TRUE(driver.open("NeverApplied"));
}

TEST(NeverApplied, AtTheEndTwelveSuffice) {
  Driver few(from(0x1p32));
  few.attempts(11, true);
  few.leave_all();
  EXPECT_EQ(few.find("NeverApplied"), nullptr);
  Driver enough(from(0x1p32));
  enough.attempts(12, true);
  enough.leave_all();
  ASSERT_NE(enough.find("NeverApplied"), nullptr);
  EXPECT_EQ(enough.find("NeverApplied")->severity, Severity::kWarning);
  EXPECT_FALSE(enough.open("NeverApplied"));  // nobody is left to act on it
}

TEST(ScaleCollapse, FiresSixOctavesBelowTheMedian) {
  Driver driver;
  driver.attempts(201, false);
  driver.attempts(5, true);
  EXPECT_EQ(driver.find("ScaleCollapse"), nullptr);
  driver.attempt(true);
  ASSERT_TRUE(driver.open("ScaleCollapse"));
  EXPECT_EQ(driver.find("ScaleCollapse")->severity, Severity::kWarning);
  EXPECT_EQ(driver.find("ScaleCollapse")->first_attempt, 202u);
}

TEST(ScaleCollapse, NeedsAMedianOrAnAbsoluteLimit) {
  Driver driver;
  driver.attempts(100, false);
  driver.attempts(8, true);  // 2^8, but of 100 attempts no median speaks
  EXPECT_EQ(driver.find("ScaleCollapse"), nullptr);
  driver.attempts(10, true);  // 2^-2: halved twice below 1
  ASSERT_TRUE(driver.open("ScaleCollapse"));
  EXPECT_EQ(driver.find("ScaleCollapse")->severity, Severity::kWarning);
  driver.attempts(12, true);  // 2^-14
  EXPECT_EQ(driver.find("ScaleCollapse")->severity, Severity::kWarning);
  driver.attempt(true);
  EXPECT_EQ(driver.find("ScaleCollapse")->severity, Severity::kCritical);
}

TEST(ScaleCollapse, ASawtoothAroundOneIsSilentAndAStaticScaleIsAChoice) {
  Driver saw(from(1, 5));
  for (int i = 0; i < 400; ++i) saw.attempt(saw.policy->scale() > 1);
  EXPECT_EQ(saw.find("ScaleCollapse"), nullptr);
  Driver fixed({.policy = "static", .parameters = {{"init_scale", 0x1p-9}}});
  fixed.attempts(300, false);
  EXPECT_EQ(fixed.find("ScaleCollapse"), nullptr);
}

TEST(ScaleCollapse, ResolvesWhenTheScaleIsBack) {
  Driver driver(from(0x1p16, 4));
  for (int i = 0; i < 300; ++i) driver.attempt(driver.policy->scale() > 0x1p16);
  driver.attempts(7, true);
  ASSERT_TRUE(driver.open("ScaleCollapse"));
  for (int i = 0; i < 400; ++i) driver.attempt(driver.policy->scale() > 0x1p16);
  EXPECT_FALSE(driver.open("ScaleCollapse"));
  EXPECT_EQ(driver.count("ScaleCollapse", Change::kOpened), 1);
}

TEST(ScaleVanished, FiresOnceTheScaleIsSubnormal) {
  Driver driver;
  driver.attempt(false);
  driver.attempts(142, true);  // 2^-126: fp32's smallest normal
  EXPECT_EQ(driver.find("ScaleVanished"), nullptr);
  driver.attempt(true);
  ASSERT_TRUE(driver.open("ScaleVanished"));
  EXPECT_EQ(driver.find("ScaleVanished")->severity, Severity::kCritical);
  driver.attempts(30, true);
  EXPECT_EQ(driver.policy->scale(), 0);
  EXPECT_EQ(driver.count("ScaleVanished", Change::kOpened), 1);
  driver.attempt(true, [](AttemptDigest& digest) { digest.scalers[0].scale_after = 0x1p16; });  // set anew by hand
  EXPECT_FALSE(driver.open("ScaleVanished"));
}

}  // namespace
}  // namespace scalewatch::domain

// Rules that know a scaler's policy, its floor and its start: when they fire, escalate, stay silent and resolve.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

DriverOptions known(double init = 65536, double interval = 2000) {
  return {.parameters = {{"init_scale", init}, {"growth_interval", interval}, {"growth_factor", 2.0}, {"backoff_factor", 0.5}}};
}

bool advises(const Finding* finding, const std::string& id, const std::string& words) {
  if (finding == nullptr) return false;
  for (const Advice& one : finding->advice) {
    if (one.id == id && one.text.find(words) != std::string::npos) return true;
  }
  return false;
}

// The next segment of a driver's run: its scaler begins at `scale`, its steps at `step`.
Driver::Edit at_step(const Driver& driver, std::int64_t first_step) {
  return [&driver, first_step](AttemptDigest& digest) { digest.step = first_step + static_cast<std::int64_t>(driver.next); };
}
void restart(Driver& driver, double scale) {
  driver.policy = make_policy("pytorch", driver.options.parameters);
  driver.policy->resync({scale, {}, {}});
  driver.next = 1;
  driver.send(SegmentOpened{2, driver.now});
  driver.join(0);
}

TEST(CalibrationTooLong, TellsWhatTheInitialScaleCost) {
  Driver driver(known(0x1p32));
  driver.attempts(17, true);
  EXPECT_EQ(driver.find("CalibrationTooLong"), nullptr);
  driver.attempt(false);
  ASSERT_TRUE(driver.open("CalibrationTooLong"));
  EXPECT_EQ(driver.worst(), Severity::kInfo);
  EXPECT_NE(driver.find("CalibrationTooLong")->summary.find("17 attempts (1.7 s)"), std::string::npos);
  EXPECT_TRUE(advises(driver.find("CalibrationTooLong"), "init_scale", "2^16"));
  driver.attempts(50, false);
  EXPECT_FALSE(driver.open("CalibrationTooLong"));
  Driver short_search(known(0x1p28));
  short_search.attempts(12, true);
  short_search.attempt(false);
  EXPECT_EQ(short_search.find("CalibrationTooLong"), nullptr);
}

TEST(StepFrozen, FourAttemptsOnOneStep) {
  Driver driver;
  driver.attempts(10, false);
  const auto frozen = [](AttemptDigest& digest) { digest.step = 110; };
  driver.attempts(3, true, frozen);
  EXPECT_EQ(driver.find("StepFrozen"), nullptr);
  driver.attempt(true, frozen);
  ASSERT_TRUE(driver.open("StepFrozen"));
  EXPECT_EQ(driver.find("StepFrozen")->severity, Severity::kCritical);
  EXPECT_EQ(driver.find("StepFrozen")->first_attempt, 11u);
  driver.attempt(false);
  EXPECT_FALSE(driver.open("StepFrozen"));
}

TEST(StepFrozen, IsSilentWithoutASkipWithoutStepsAndWhereItIsAHabit) {
  Driver still;
  still.attempts(10, false);
  still.attempts(5, false, [](AttemptDigest& digest) { digest.step = 110; });
  EXPECT_EQ(still.find("StepFrozen"), nullptr);
  Driver unnumbered;
  unnumbered.attempts(10, false, [](AttemptDigest& digest) { digest.step = 0; });
  unnumbered.attempts(9, true, [](AttemptDigest& digest) { digest.step = 0; });
  EXPECT_EQ(unnumbered.find("StepFrozen"), nullptr);
  Driver several;  // four updates a step
  for (int i = 0; i < 200; ++i) {
    several.attempt(i % 50 == 45, [&](AttemptDigest& digest) { digest.step = (i + 1) / 4; });
  }
  EXPECT_EQ(several.find("StepFrozen"), nullptr);
}

TEST(ScaleAtMinimum, WarnsAtTheFloorAndIsCriticalAtTheThird) {
  Driver driver({.policy = "megatron",
                 .parameters = {{"init_scale", 4}, {"min_scale", 1}, {"growth_interval", 1000}, {"hysteresis", 1}}});
  driver.attempt(false);
  driver.attempts(2, true);
  EXPECT_EQ(driver.find("ScaleAtMinimum"), nullptr);
  driver.attempt(true);
  ASSERT_TRUE(driver.open("ScaleAtMinimum"));
  EXPECT_EQ(driver.find("ScaleAtMinimum")->severity, Severity::kWarning);
  driver.attempts(5, false);
  driver.attempt(true);
  EXPECT_EQ(driver.find("ScaleAtMinimum")->severity, Severity::kWarning);
  driver.attempt(true);
  EXPECT_EQ(driver.find("ScaleAtMinimum")->severity, Severity::kCritical);
  EXPECT_EQ(driver.count("ScaleAtMinimum", Change::kOpened), 1);
  driver.attempts(50, false);
  EXPECT_FALSE(driver.open("ScaleAtMinimum"));
}

TEST(ScaleAtMinimum, IsCriticalBeforeASkipThatEndsTheRunAndWhenNothingWasEverApplied) {
  Driver deepspeed({.policy = "deepspeed", .parameters = {{"init_scale", 4}, {"hysteresis", 1}}});
  deepspeed.attempt(false);
  while (deepspeed.policy->fatal().empty() && deepspeed.next < 10) deepspeed.attempt(true);
  ASSERT_TRUE(deepspeed.open("ScaleAtMinimum"));
  EXPECT_EQ(deepspeed.find("ScaleAtMinimum")->severity, Severity::kCritical);
  EXPECT_NE(deepspeed.find("ScaleAtMinimum")->summary.find("ends the run at its next skip"), std::string::npos);
  Driver never({.policy = "keras2", .parameters = {{"init_scale", 2}}});
  never.attempts(2, true);
  ASSERT_TRUE(never.open("ScaleAtMinimum"));
  EXPECT_EQ(never.find("ScaleAtMinimum")->severity, Severity::kCritical);
  Driver none;  // PyTorch has no floor, a fixed scale is a choice
  none.attempts(30, true);
  EXPECT_EQ(none.find("ScaleAtMinimum"), nullptr);
  Driver fixed({.policy = "static", .parameters = {{"init_scale", 1024}}});
  fixed.attempts(30, true);
  EXPECT_EQ(fixed.find("ScaleAtMinimum"), nullptr);
}

TEST(ScaleRunaway, FiresAboveAnyUseOrWhenTheScaleIsBroken) {
  Driver driver(known(65536, 1));
  driver.attempts(16, false);  // 2^32
  EXPECT_EQ(driver.find("ScaleRunaway"), nullptr);
  driver.attempt(false);
  ASSERT_TRUE(driver.open("ScaleRunaway"));
  EXPECT_EQ(driver.find("ScaleRunaway")->severity, Severity::kWarning);
  EXPECT_TRUE(advises(driver.find("ScaleRunaway"), "check_gradients", "2^33"));
  Driver megatron(known(0x1p32, 1));
  megatron.attempts(8, false);  // 2^40: so far above its start
  EXPECT_EQ(megatron.find("ScaleRunaway"), nullptr);
  megatron.attempt(false);
  EXPECT_TRUE(megatron.open("ScaleRunaway"));
  Driver broken;
  broken.attempt(false, [](AttemptDigest& digest) { digest.scalers[0].scale_after = INFINITY; });
  EXPECT_TRUE(broken.open("ScaleRunaway"));
}

TEST(ScaleRunaway, FiresWhenTheScaleGrowsOverZerosAndResolves) {
  const auto gradients = [](bool zero) {
    return [=](AttemptDigest& digest) {
      digest.observed_gradients = true;
      digest.gradients_zero = zero;
    };
  };
  Driver driver(known(65536, 10));
  driver.attempts(20, false, gradients(false));
  EXPECT_EQ(driver.find("ScaleRunaway"), nullptr);
  driver.attempts(10, false, gradients(true));
  ASSERT_TRUE(driver.open("ScaleRunaway"));
  driver.attempts(50, false, gradients(false));
  EXPECT_FALSE(driver.open("ScaleRunaway"));
}

Driver::Edit without_update(double scale) {
  return [=](AttemptDigest& digest) { digest.scalers[0].scale_before = digest.scalers[0].scale_after = scale; };
}

TEST(ScaleStuck, FiresAtTheSecondChangeThatDidNotCome) {
  Driver driver(known());
  driver.attempt(false);
  driver.attempt(true, without_update(65536));
  EXPECT_EQ(driver.find("ScaleStuck"), nullptr);
  driver.attempts(3, false, without_update(65536));
  driver.attempt(true, without_update(65536));
  ASSERT_TRUE(driver.open("ScaleStuck"));
  EXPECT_EQ(driver.find("ScaleStuck")->severity, Severity::kWarning);
  EXPECT_TRUE(advises(driver.find("ScaleStuck"), "call_update", "stays at 2^16"));
  driver.policy->resync({65536.0, {}, {}});
  driver.attempt(true);
  EXPECT_FALSE(driver.open("ScaleStuck"));
}

TEST(ScaleStuck, AGrowthThatDoesNotComeCountsWhereTheTrackerIsKnown) {
  const auto stuck = [](std::uint64_t tracker) {
    return [=](AttemptDigest& digest) {
      digest.scalers[0].scale_before = digest.scalers[0].scale_after = 65536;
      digest.scalers[0].growth_tracker = tracker;
    };
  };
  Driver driver(known(65536, 10));
  for (int i = 0; i < 2; ++i) {
    driver.attempt(false, stuck(9));
    driver.attempt(false, stuck(0));
  }
  EXPECT_TRUE(driver.open("ScaleStuck"));
  Driver unknown(known(65536, 10));
  unknown.attempts(40, false, without_update(65536));
  EXPECT_EQ(unknown.find("ScaleStuck"), nullptr);
}

TEST(ScaleStuck, IsSilentUnderHysteresisAtTheFloorAndWhereParametersAreGuessed) {
  Driver megatron({.policy = "megatron", .parameters = {{"init_scale", 64}, {"growth_interval", 50}, {"hysteresis", 2}}});
  for (int i = 0; i < 300; ++i) megatron.attempt(i % 7 == 3);
  EXPECT_EQ(megatron.find("ScaleStuck"), nullptr);
  EXPECT_EQ(megatron.find("ScalePolicyMismatch"), nullptr);
  Driver guessed;
  guessed.attempt(false);
  guessed.attempts(6, true, without_update(65536));
  EXPECT_EQ(guessed.find("ScaleStuck"), nullptr);
}

TEST(ScaleDrift, IsInfoAtThreeAndWarnsWhenTheNormDoubled) {
  const auto norm = [](double value) { return [=](AttemptDigest& digest) { digest.grad_norm = value; }; };
  Driver driver;
  driver.attempts(20, false, norm(1));
  for (int i = 0; i < 3; ++i) {
    driver.attempt(true);
    driver.attempts(60, false, norm(1));
  }
  ASSERT_TRUE(driver.open("ScaleDrift"));
  EXPECT_EQ(driver.find("ScaleDrift")->severity, Severity::kInfo);
  driver.attempts(20, false, norm(2.5));
  driver.attempt(true);
  EXPECT_EQ(driver.find("ScaleDrift")->severity, Severity::kWarning);
  EXPECT_EQ(driver.count("ScaleDrift", Change::kEscalated), 1);
  driver.attempts(199, false);
  EXPECT_TRUE(driver.open("ScaleDrift"));
  driver.attempt(false);  // it has stopped
  EXPECT_FALSE(driver.open("ScaleDrift"));
  driver.attempt(true);  // or not
  EXPECT_TRUE(driver.open("ScaleDrift"));
  driver.attempts(2000, false);  // it grows
  EXPECT_FALSE(driver.open("ScaleDrift"));
}

TEST(ScaleDrift, WarnsAtSixWithinTwoHundredAndAGrowthBetweenEndsIt) {
  Driver driver;
  driver.attempt(false);
  for (int i = 0; i < 6; ++i) {
    driver.attempts(35, false);
    driver.attempt(true);
  }
  EXPECT_EQ(driver.find("ScaleDrift")->severity, Severity::kWarning);
  Driver rider(known(65536, 20));
  for (int i = 0; i < 400; ++i) rider.attempt(rider.policy->scale() > 65536);
  EXPECT_EQ(rider.find("ScaleDrift"), nullptr);
}

TEST(ScalePolicyMismatch, AScalerThatBeginsAnewAtAResumeIsAReset) {
  Driver driver(known(65536, 100));
  driver.attempts(250, false);  // 2^18
  restart(driver, 65536);
  driver.attempts(5, false, at_step(driver, 2500));
  ASSERT_TRUE(driver.open("ScalePolicyMismatch"));
  const Finding& finding = *driver.find("ScalePolicyMismatch");
  EXPECT_EQ(finding.subject, "default/reset at resume");
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_TRUE(advises(&finding, "restore_scaler", "2^18"));
  driver.attempts(50, false, at_step(driver, 2500));
  EXPECT_FALSE(driver.open("ScalePolicyMismatch"));
}

TEST(ScalePolicyMismatch, CountsAResetAlsoWithAssumedParametersButNothingElse) {
  Driver driver;
  driver.attempts(10, false);
  driver.attempts(3, true);
  driver.attempts(3, false, without_update(1024));
  EXPECT_EQ(driver.find("ScalePolicyMismatch"), nullptr);
  restart(driver, 65536);
  driver.attempt(false, at_step(driver, 160));
  EXPECT_TRUE(driver.open("ScalePolicyMismatch"));
}

TEST(ScalePolicyMismatch, IsSilentWhenRestoredWhenOlderAndWhenTheRunStartsOver) {
  const auto resumed = [](double scale, std::int64_t step, std::optional<std::uint64_t> tracker = {}) {
    Driver driver(known(65536, 100));
    driver.attempts(250, false);  // grows at steps 1000 and 2000
    restart(driver, scale);
    driver.attempt(false, [=](AttemptDigest& digest) {
      digest.step = step;
      digest.scalers[0].growth_tracker = tracker;
    });
    return driver.find("ScalePolicyMismatch") != nullptr;
  };
  EXPECT_FALSE(resumed(0x1p18, 2501));
  EXPECT_FALSE(resumed(0x1p17, 1500));     // the checkpoint of an earlier step
  EXPECT_FALSE(resumed(65536, 500));       // and of one where the scale was the initial one
  EXPECT_FALSE(resumed(65536, 10));        // from the first step again
  EXPECT_FALSE(resumed(65536, 2501, 51));  // the tracker was restored
  EXPECT_TRUE(resumed(65536, 1500));
}

TEST(ScalePolicyMismatch, ClassifiesByWhatIsSeen) {
  const auto subject_of = [](const Driver::Edit& edit, std::uint32_t ranks = 1) {
    DriverOptions options = known();
    options.ranks = ranks;
    Driver driver(options);
    driver.attempts(3, false);
    driver.attempt(true);
    driver.attempt(true, edit);
    const Finding* finding = driver.find("ScalePolicyMismatch");
    return finding == nullptr ? std::string("none")
                              : finding->subject + " " + std::to_string(static_cast<int>(finding->severity));
  };
  EXPECT_EQ(subject_of({}), "none");
  EXPECT_EQ(subject_of([](AttemptDigest& digest) { digest.scalers[0].scale_after = 4096; }),
            "default/several updates at once 2");
  EXPECT_EQ(subject_of([](AttemptDigest& digest) { digest.scalers[0].scale_after = 10000; }), "default/unexplained 2");
  EXPECT_EQ(subject_of([](AttemptDigest& digest) {
              digest.scalers[0].scale_before = 100;
              digest.scalers[0].scale_after = 50;
            }),
            "default/set by hand 1");
  EXPECT_EQ(subject_of(
                [](AttemptDigest& digest) {
                  if (digest.rank == 0) digest.scalers[0].scale_after = 10000;
                },
                2),
            "default/rank drift 2");
}

TEST(ScalePolicyMismatch, LostReportsExplainWhatTheyCan) {
  const auto gap = [](Attempt missing, double scale) {
    Driver driver(known());
    driver.attempts(3, false);
    driver.next += missing;
    driver.policy->resync({scale, {}, {}});
    driver.attempt(false);
    return driver.find("ScalePolicyMismatch") == nullptr ? std::string() : driver.find("ScalePolicyMismatch")->subject;
  };
  EXPECT_EQ(gap(5, 65536), "");
  EXPECT_EQ(gap(5, 16384), "default/lost reports");
  EXPECT_EQ(gap(5, 0x1p-74), "default/several updates at once");
}

TEST(LogsFromTheMiddle, AreNotCalibrating) {
  Driver driver(known());
  driver.next = 1000;
  driver.attempts(5, true);
  EXPECT_TRUE(driver.open("ConsecutiveSkips"));
  Driver high;  // 2^20 is above the default: it came down from 2^32
  high.policy->resync({0x1p20, {}, {}});
  high.next = 13;
  high.attempts(5, true);
  EXPECT_EQ(high.find("ConsecutiveSkips"), nullptr);
  EXPECT_EQ(high.find("NeverApplied"), nullptr);
}

}  // namespace
}  // namespace scalewatch::domain

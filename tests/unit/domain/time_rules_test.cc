// A run whose trainers are there and that does not move.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

constexpr TimeMs kMinute = 60'000;

// Nothing was reported for so long; every rank beats and says that it is in this phase.
void quiet(Driver& driver, TimeMs milliseconds, Phase phase = Phase::kTrain, TimeMs up = 3600 * 1000) {
  Liveness liveness;
  liveness.now = driver.now + milliseconds;
  liveness.server_up = up;
  for (Rank rank = 0; rank < driver.options.ranks; ++rank) liveness.ranks.push_back({rank, liveness.now - 1000, true, phase});
  driver.send(liveness);
}

TEST(RunStalled, FiresAfterTenMinutesAndResolvesWithTheNextAttempt) {
  Driver driver({.ranks = 2});
  driver.attempts(30, false);
  quiet(driver, 9 * kMinute);
  EXPECT_EQ(driver.find("RunStalled"), nullptr);
  quiet(driver, 10 * kMinute);
  ASSERT_TRUE(driver.open("RunStalled"));
  EXPECT_EQ(driver.find("RunStalled")->severity, Severity::kWarning);
  EXPECT_TRUE(driver.find("RunStalled")->ranks.empty());
  driver.now += 11 * kMinute;
  driver.attempt(false);
  EXPECT_FALSE(driver.open("RunStalled"));
  quiet(driver, 10 * kMinute);
  EXPECT_TRUE(driver.open("RunStalled"));  // a stall is no measure of how long the run may be quiet
}

TEST(RunStalled, NamesTheRanksBehind) {
  Driver driver({.ranks = 3});
  driver.attempts(30, false);
  driver.send(driver.digest(0, false));
  driver.send(driver.digest(2, false));
  quiet(driver, 15 * kMinute);
  ASSERT_TRUE(driver.open("RunStalled"));
  const Finding& finding = *driver.find("RunStalled");
  EXPECT_EQ(finding.ranks, std::vector<Rank>{1});
  EXPECT_NE(finding.summary.find("rank 1 is behind, since attempt 30"), std::string::npos);
  ASSERT_FALSE(finding.advice.empty());
  EXPECT_NE(finding.advice.front().text.find("rank 1 first (host node0, pid 101)"), std::string::npos);
}

TEST(RunStalled, IsSilentInOtherPhasesOnAYoungServerAndWithFewAttempts) {
  for (const Phase phase : {Phase::kEval, Phase::kCheckpoint, Phase::kInit}) {
    Driver driver;
    driver.attempts(30, false);
    quiet(driver, 60 * kMinute, phase);
    EXPECT_EQ(driver.find("RunStalled"), nullptr);
  }
  Driver young;
  young.attempts(30, false);
  quiet(young, 60 * kMinute, Phase::kTrain, 4 * kMinute);
  quiet(young, 60 * kMinute, Phase::kTrain, 0);
  quiet(young, 60 * kMinute, Phase::kTrain, 9 * kMinute);  // so long has it listened in vain
  EXPECT_EQ(young.find("RunStalled"), nullptr);
  Driver few;
  few.attempts(19, false);
  quiet(few, 60 * kMinute);
  EXPECT_EQ(few.find("RunStalled"), nullptr);
}

TEST(RunStalled, WaitsLongerForARunThatIsSlowOrPauses) {
  Driver slow;
  for (int i = 0; i < 30; ++i) {
    slow.attempt(false);
    slow.now += kMinute;
  }
  quiet(slow, 18 * kMinute);
  EXPECT_EQ(slow.find("RunStalled"), nullptr);
  quiet(slow, 21 * kMinute);
  EXPECT_TRUE(slow.open("RunStalled"));
  Driver pauses;
  pauses.attempts(30, false);
  pauses.now += 5 * kMinute;
  pauses.attempts(30, false);
  quiet(pauses, 24 * kMinute);
  EXPECT_EQ(pauses.find("RunStalled"), nullptr);
  quiet(pauses, 26 * kMinute);
  EXPECT_TRUE(pauses.open("RunStalled"));
}

TEST(RunStalled, LeavesARunThatIsGoneToItsOwnRule) {
  Driver driver;
  driver.attempts(30, false);
  Liveness gone;
  gone.now = driver.now + 20 * kMinute;
  gone.server_up = 60 * kMinute;
  gone.ranks = {{0, driver.now, false, Phase::kTrain}};
  driver.send(gone);
  EXPECT_EQ(driver.find("RunStalled"), nullptr);
  EXPECT_TRUE(driver.open("EndedWithoutGoodbye"));
}

// All ranks were seen `ago` before now.
Liveness silence(const Driver& driver, TimeMs ago) {
  Liveness liveness;
  liveness.now = driver.now + ago;
  liveness.server_up = 60 * kMinute;
  for (Rank rank = 0; rank < driver.options.ranks; ++rank) liveness.ranks.push_back({rank, driver.now, false, Phase::kTrain});
  return liveness;
}

TEST(RunIsGone, WhatIsOpenResolvesAfterADayWithTheReason) {
  Driver driver({.ranks = 2});
  driver.attempts(3, false);
  driver.attempt(false, [](AttemptDigest& digest) { digest.loss = NAN; });
  ASSERT_TRUE(driver.open("NonFiniteLoss"));
  constexpr TimeMs kDay = 24 * 60 * kMinute;
  driver.send(silence(driver, 2 * kMinute));
  driver.send(silence(driver, kDay - 1));
  EXPECT_TRUE(driver.open("NonFiniteLoss"));
  EXPECT_TRUE(driver.open("EndedWithoutGoodbye"));
  driver.send(silence(driver, kDay));
  EXPECT_FALSE(driver.open("NonFiniteLoss"));
  EXPECT_FALSE(driver.open("EndedWithoutGoodbye"));
  EXPECT_TRUE(driver.state.view().open.empty());
  EXPECT_EQ(driver.events.back().change, Change::kResolved);
  EXPECT_EQ(driver.events.back().reason, "the run is gone: nothing was heard of it for 24 h");
  // Told again, nothing comes of it; and when somebody returns all goes on.
  const std::size_t events = driver.events.size();
  driver.send(silence(driver, kDay + kMinute));
  EXPECT_EQ(driver.events.size(), events);
  driver.now += 2 * kDay;
  driver.attempt(false, [](AttemptDigest& digest) { digest.loss = NAN; });
  EXPECT_TRUE(driver.open("NonFiniteLoss"));
}

TEST(RunIsGone, NotWhileOneRankIsHeardOfNorWhereItIsNotWanted) {
  constexpr TimeMs kWeek = 7 * 24 * 60 * kMinute;
  Driver driver({.ranks = 2});
  driver.attempt(false, [](AttemptDigest& digest) { digest.loss = NAN; });
  Liveness one = silence(driver, kWeek);
  one.ranks.front().last_seen = one.now - 2 * kMinute;
  driver.send(one);
  EXPECT_TRUE(driver.open("NonFiniteLoss"));
  DriverOptions never;
  never.thresholds.run_gone_after_ms = 0;
  Driver kept(never);
  kept.attempt(false, [](AttemptDigest& digest) { digest.loss = NAN; });
  kept.send(silence(kept, kWeek));
  EXPECT_TRUE(kept.open("NonFiniteLoss"));
}

}  // namespace
}  // namespace scalewatch::domain

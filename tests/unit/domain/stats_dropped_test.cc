// Losses are told by cause, and only losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;
using ::testing::HasSubstr;

TEST(StatsDropped, LostReportsAreAWarningByCauseThatResolves) {
  Driver driver({.ranks = 2});
  driver.attempts(10, false);
  driver.send(ReportsLost{1, 11, 30, LossCause::kBufferFull, driver.now});
  const Finding* finding = driver.find("StatsDropped");
  ASSERT_NE(finding, nullptr) << "told at once";
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_EQ(finding->subject, "buffer_full");
  EXPECT_EQ(finding->ranks, std::vector<Rank>{1});
  EXPECT_THAT(finding->summary, HasSubstr("20 reports never arrived of rank 1 (buffer_full)"));
  ASSERT_FALSE(finding->advice.empty());
  EXPECT_THAT(finding->advice.front().text, HasSubstr("buffer_bytes"));
  driver.send(ReportsLost{0, 40, 40, LossCause::kTooLarge, driver.now});
  EXPECT_EQ(driver.count("StatsDropped", Change::kOpened), 2) << "another cause is another finding";
  driver.attempts(199, false);
  EXPECT_EQ(driver.count("StatsDropped", Change::kResolved), 0);
  driver.attempt(false);
  EXPECT_EQ(driver.count("StatsDropped", Change::kResolved), 2);
}

TEST(StatsDropped, CountsStopAtTheLargestThereIs) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  Driver driver({.ranks = 2});
  driver.attempts(10, false);
  driver.send(ReportsLost{1, 11, kMost, LossCause::kBufferFull, driver.now});
  driver.send(ReportsLost{1, 11, 30, LossCause::kBufferFull, driver.now});
  EXPECT_EQ(driver.state.view().ranks.at(1).losses.at(0).reports, kMost);
}

TEST(StatsDropped, ThinnedReportsAreToldWithTheirAttempt) {
  Driver driver({.ranks = 4});
  driver.attempts(5, false);
  driver.attempts(30, false, [](AttemptDigest& digest) {
    if (digest.rank > 1) digest.statistics_lost = LossCause::kQueueFull;
  });
  const Finding* finding = driver.find("StatsDropped");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_EQ(finding->first_attempt, 6u);
  EXPECT_EQ(finding->ranks, (std::vector<Rank>{2, 3}));
  EXPECT_EQ(driver.count("StatsDropped", Change::kOpened), 1);
  const RunView view = driver.state.view();
  ASSERT_EQ(view.ranks[3].losses.size(), 1u);
  EXPECT_EQ(view.ranks[3].losses[0].thinned, 30u);
  EXPECT_EQ(view.ranks[3].losses[0].first_attempt, 6u);
  EXPECT_EQ(view.ranks[3].losses[0].last_attempt, 35u);
  EXPECT_THAT(view.open.front().summary, HasSubstr("60 reports came without full statistics of ranks 2-3 (queue_full)"));
}

TEST(StatsDropped, AnOutageThinsByDesignAndPagesNobody) {
  Driver driver;
  driver.attempts(20, false, [](AttemptDigest& digest) { digest.statistics_lost = LossCause::kReconnect; });
  ASSERT_NE(driver.find("StatsDropped"), nullptr);
  EXPECT_EQ(driver.find("StatsDropped")->severity, Severity::kInfo);
  EXPECT_THAT(driver.find("StatsDropped")->summary, HasSubstr("by design"));
  driver.send(ReportsLost{0, 30, 31, LossCause::kReconnect, driver.now});
  EXPECT_EQ(driver.find("StatsDropped")->severity, Severity::kWarning) << "whole reports are more than that";
}

TEST(StatsDropped, WhatWasNeverMeasuredIsNoLoss) {
  Driver driver({.ranks = 2});
  driver.attempts(300, false, [](AttemptDigest& digest) {
    digest.observed_gradients = digest.rank == 0;  // a follower of the stats leader
    digest.observed_parameters = digest.attempt % 50 == 0;
  });
  EXPECT_EQ(driver.find("StatsDropped"), nullptr);
}

TEST(StatsDropped, ALossOfARankThatTheSegmentDoesNotHaveIsNotItsOwn) {
  Driver driver;
  driver.send(ReportsLost{7, 1, 5, LossCause::kBufferFull, driver.now});
  EXPECT_EQ(driver.find("StatsDropped"), nullptr);
  EXPECT_EQ(driver.state.view().ranks.size(), 1u);
}

}  // namespace
}  // namespace scalewatch::domain

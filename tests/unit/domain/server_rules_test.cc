// The server's own troubles: late or not stored. And rules that are turned off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(IngestLag, FiresBeyondItsLimitAndResolvesAtHalf) {
  Driver driver;
  driver.attempts(5, false);
  driver.send(ServerLag{4999, false, {}, driver.now});
  EXPECT_EQ(driver.find("IngestLag"), nullptr);
  driver.send(ServerLag{5000, false, {}, driver.now});
  const Finding* finding = driver.find("IngestLag");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_EQ(finding->first_attempt, 5u);
  EXPECT_THAT(finding->summary, HasSubstr("5.0 s behind"));
  ASSERT_FALSE(finding->advice.empty());
  driver.send(ServerLag{3000, false, {}, driver.now});
  EXPECT_TRUE(driver.open("IngestLag"));
  driver.send(ServerLag{2000, false, {}, driver.now});
  EXPECT_FALSE(driver.open("IngestLag"));
}

TEST(HistoryDegraded, NamesWhatTheStoreSaysAndIsNoLag) {
  Driver driver;
  driver.attempts(5, false);
  driver.send(ServerLag{9000, false, {}, driver.now});
  driver.send(ServerLag{12'000, true, "history.db: database or disk is full", driver.now});
  const Finding* finding = driver.find("HistoryDegraded");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_THAT(finding->summary, HasSubstr("12 s: history.db: database or disk is full"));
  EXPECT_FALSE(driver.open("IngestLag")) << "nothing is slow, it stands";
  driver.send(ServerLag{0, false, {}, driver.now});
  EXPECT_FALSE(driver.open("HistoryDegraded"));
}

TEST(HistoryDegraded, OneRefusalThatPassesPagesNobody) {
  Driver driver;
  driver.attempts(5, false);
  driver.send(ServerLag{2999, true, "locked", driver.now});
  EXPECT_EQ(driver.find("HistoryDegraded"), nullptr);
}

TEST(RulesOff, FindNothing) {
  DriverOptions options;
  options.thresholds.off = {"ConsecutiveSkips"};
  Driver driver(options);
  driver.attempts(30, false);
  driver.attempts(8, true);
  EXPECT_EQ(driver.find("ConsecutiveSkips"), nullptr);
  EXPECT_NE(driver.find("FrequentSkippedSteps"), nullptr) << "the others go on";
}

TEST(RulesOff, WhatWasFoundBeforeResolvesAfterTheRestart) {
  Driver driver;
  driver.attempts(30, false);
  driver.attempts(8, true);
  ASSERT_TRUE(driver.open("ConsecutiveSkips"));
  Thresholds thresholds;
  thresholds.off = {"ConsecutiveSkips"};
  RunState restarted(thresholds);
  restarted.load(driver.state.save());
  int resolved = 0;
  for (const FindingEvent& event : restarted.fold(ServerLag{0, false, {}, driver.now})) {
    if (event.finding.rule == "ConsecutiveSkips" && event.change == Change::kResolved) ++resolved;
  }
  EXPECT_EQ(resolved, 1);
}

TEST(RulesOff, EveryRuleHasAName) {
  const auto names = rule_names();
  EXPECT_GE(names.size(), 37u);
  EXPECT_THAT(names, Contains("HistoryDegraded"));
}

}  // namespace
}  // namespace scalewatch::domain

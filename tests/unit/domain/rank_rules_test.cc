// Rules over several ranks, their leader, and their silence.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "server/domain/model.h"
#include "server/domain/rules/rule.h"
#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

Liveness silence(const Driver& driver, std::vector<TimeMs> seconds, bool connected = true) {
  Liveness liveness;
  liveness.now = driver.now;
  for (Rank rank = 0; rank < seconds.size(); ++rank) {
    liveness.ranks.push_back({rank, driver.now - seconds[rank] * 1000, connected});
  }
  return liveness;
}

TEST(RankDisagreement, NamesTheRankThatDiffers) {
  Driver driver({.ranks = 4});
  driver.attempts(2, false);
  driver.attempt(false, [](AttemptDigest& digest) {
    if (digest.rank == 2) digest.scalers[0].scale_after = 32768;
  });
  ASSERT_TRUE(driver.open("RankDisagreement"));
  EXPECT_EQ(driver.find("RankDisagreement")->severity, Severity::kCritical);
  EXPECT_EQ(driver.find("RankDisagreement")->ranks, std::vector<Rank>{2});
  driver.attempts(50, false);
  EXPECT_FALSE(driver.open("RankDisagreement"));
  EXPECT_EQ(driver.count("RankDisagreement", Change::kOpened), 1);
}

TEST(RankDisagreement, ComparesWhatWasDecidedNotWhatIsLocal) {
  Driver local({.ranks = 2});
  local.attempts(3, true, [](AttemptDigest& digest) {
    if (digest.rank == 1) digest.scalers[0].optimizers[0].found_inf_local = 0;
    if (digest.rank == 0) digest.scalers[0].optimizers[0].found_inf_decided = 2;  // counts differ, the decision does not
  });
  EXPECT_EQ(local.find("RankDisagreement"), nullptr);
  Driver decided({.ranks = 2});
  decided.attempt(true, [](AttemptDigest& digest) {
    if (digest.rank == 1) digest.scalers[0].optimizers[0].found_inf_decided = 0;
  });
  EXPECT_TRUE(decided.open("RankDisagreement"));
}

// A newer job takes the places of an older one's ranks one by one: until all are taken two jobs are compared.
TEST(RankDisagreement, RanksOfTwoJobsNeedNotAgree) {
  Driver driver({.ranks = 2});
  driver.attempts(5, false);
  const auto of_another_job = [](AttemptDigest& digest) {
    if (digest.rank == 0) digest.scalers[0].scale_after = 1024;
    digest.replicas = {{kWeight0, digest.rank}};
  };
  driver.join(0);
  driver.attempts(3, false, of_another_job);
  EXPECT_EQ(driver.find("RankDisagreement"), nullptr);
  // It stays alone: what differs now differs within one job.
  driver.now += RunModel::kTakeOver;
  driver.attempt(false, of_another_job);
  EXPECT_TRUE(driver.open("RankDisagreement"));
}

TEST(RankDisagreement, RanksThatAgreeOnABrokenScaleAgree) {
  Driver driver({.ranks = 2});
  driver.attempts(3, true, [](AttemptDigest& digest) { digest.scalers[0].scale_after = NAN; });
  EXPECT_EQ(driver.find("RankDisagreement"), nullptr);
}

TEST(RankDisagreement, ReplicasMustBeBitwiseEqual) {
  Driver driver({.ranks = 3});
  const auto hashes = [](std::uint64_t odd) {
    return [=](AttemptDigest& digest) { digest.replicas = {{kWeight0, 7}, {kWeight1, digest.rank == 1 ? odd : 8}}; };
  };
  driver.attempts(3, false, hashes(8));
  EXPECT_EQ(driver.find("RankDisagreement"), nullptr);
  driver.attempt(false, hashes(9));
  ASSERT_TRUE(driver.open("RankDisagreement"));
  EXPECT_EQ(driver.find("RankDisagreement")->subject, "replicas");
  EXPECT_NE(driver.find("RankDisagreement")->summary.find("layers.1.weight"), std::string::npos);
}

TEST(RankLost, NeedsSilenceBesideALivingRank) {
  Driver driver({.ranks = 4});
  driver.attempts(5, false);
  driver.send(silence(driver, {1, 59, 1, 1}));
  EXPECT_TRUE(driver.events.empty());
  driver.send(silence(driver, {20, 60, 20, 20}));  // nobody is known to beat
  EXPECT_TRUE(driver.events.empty());
  driver.send(silence(driver, {1, 61, 1, 1}, false));
  ASSERT_TRUE(driver.open("RankLost"));
  EXPECT_EQ(driver.find("RankLost")->ranks, std::vector<Rank>{1});
  EXPECT_EQ(driver.find("RankLost")->subject, "node0");
  EXPECT_EQ(driver.find("RankLost")->severity, Severity::kCritical);
  driver.send(silence(driver, {1, 2, 1, 1}));
  EXPECT_FALSE(driver.open("RankLost"));
}

TEST(RankLost, TwiceAtOneAttemptAreTwoFindings) {
  Driver driver({.ranks = 2});
  driver.attempts(5, false);
  for (int i = 0; i < 2; ++i) {
    driver.send(silence(driver, {1, 70}));
    driver.send(silence(driver, {1, 1}));
  }
  ASSERT_EQ(driver.events.size(), 4u);
  EXPECT_NE(driver.events[0].finding.id, driver.events[2].finding.id);
}

TEST(EndedWithoutGoodbye, IsInfoAndLeavesFindingsOpen) {
  Driver driver({.ranks = 2});
  driver.attempts(2, false);
  driver.attempts(5, true);
  ASSERT_TRUE(driver.open("ConsecutiveSkips"));
  driver.send(silence(driver, {61, 75}));
  ASSERT_TRUE(driver.open("EndedWithoutGoodbye"));
  EXPECT_EQ(driver.find("EndedWithoutGoodbye")->severity, Severity::kInfo);
  EXPECT_EQ(driver.find("RankLost"), nullptr);
  EXPECT_TRUE(driver.open("ConsecutiveSkips"));
  driver.send(silence(driver, {1, 75}));
  EXPECT_FALSE(driver.open("EndedWithoutGoodbye"));
  EXPECT_TRUE(driver.open("RankLost"));
}

TEST(Goodbye, ResolvesEverythingAlsoWhatClosesLater) {
  Driver driver({.ranks = 2});
  driver.attempts(2, false);
  driver.attempts(5, true);
  for (Rank rank = 0; rank < 2; ++rank) {
    AttemptDigest digest = driver.digest(rank, true);
    digest.loss = NAN;
    digest.scalers[0].scale_after = driver.policy->scale() / 2;
    driver.send(digest);
  }
  driver.send(RankLeft{0, "finished", driver.now});
  EXPECT_TRUE(driver.open("ConsecutiveSkips"));
  driver.send(RankLeft{1, "finished", driver.now});
  EXPECT_FALSE(driver.open("ConsecutiveSkips"));
  driver.close(driver.next);
  ASSERT_NE(driver.find("NonFiniteLoss"), nullptr);
  EXPECT_FALSE(driver.open("NonFiniteLoss"));
  EXPECT_TRUE(driver.state.view().open.empty());
}

TEST(Leader, ItsDigestAloneFiresAndTheNextTakesOver) {
  Driver driver({.ranks = 3});
  driver.attempts(2, false);
  const auto tell = [&](Rank rank, Attempt attempt, double scale) {
    const Attempt next = std::exchange(driver.next, attempt);
    AttemptDigest digest = driver.digest(rank, true);
    digest.scalers[0].scale_after = scale;
    driver.send(digest);
    driver.next = next;
  };
  const auto skipped = [&] { return driver.state.view().scalers[0].skipped; };
  // Rank 0 alone tells five skips: the last is seen before its attempt closes.
  std::vector<double> scales;
  for (std::uint64_t i = 0; i < 7; ++i) scales.push_back(driver.policy->update(true));
  for (std::uint64_t i = 0; i < 5; ++i) {
    tell(0, 3 + i, scales[i]);
    EXPECT_EQ(skipped(), i + 1);
    if (i < 4) driver.close(3 + i, {1, 2});
  }
  EXPECT_TRUE(driver.open("ConsecutiveSkips"));
  // What it tells of later attempts waits: whom the fifth blames is not known yet.
  tell(0, 8, scales[5]);
  EXPECT_EQ(skipped(), 5U);
  driver.close(7, {1, 2});
  EXPECT_EQ(skipped(), 6U);
  // It leaves; rank 1 tells the same attempt (not taken twice) and one more.
  driver.send(RankLeft{0, "finished", driver.now});
  tell(1, 8, scales[5]);
  tell(1, 9, scales[6]);
  EXPECT_EQ(skipped(), 6U);
  driver.close(8, {2});
  EXPECT_EQ(skipped(), 7U);
}

// Beyond what is joined its reports are not looked at; those that wait are all the same.
TEST(Leader, OneThatRunsAwayLosesNoneOfWhatWaits) {
  Driver driver({.ranks = 2});
  driver.attempts(2, false);
  for (std::size_t i = 0; i < kMaxAhead + 5; ++i, ++driver.next) driver.send(driver.digest(0, true));
  EXPECT_EQ(driver.state.view().scalers[0].skipped, 1U);
  for (Attempt attempt = 3; attempt < 3 + kMaxAhead; ++attempt) driver.close(attempt, {1});
  EXPECT_EQ(driver.state.view().scalers[0].skipped, kMaxAhead);
}

TEST(Leader, AnAttemptThatItMissedIsTakenFromAnotherAtTheClose) {
  Driver driver({.ranks = 2});
  driver.attempts(2, false);
  driver.send(driver.digest(1, true));
  EXPECT_EQ(driver.state.view().scalers[0].skipped, 0u);
  driver.close(driver.next, {0});
  EXPECT_EQ(driver.state.view().scalers[0].skipped, 1u);
}

// An attempt closes without the leader when another rank is far ahead: that rank's own scale is no second update.
TEST(Leader, AnotherRanksScaleInItsPlaceIsDrift) {
  Driver driver(
      {.ranks = 2,
       .parameters = {{"init_scale", 65536}, {"growth_interval", 2000}, {"growth_factor", 2.0}, {"backoff_factor", 0.5}}});
  driver.attempts(3, false);
  AttemptDigest ahead = driver.digest(1, false);
  ahead.scalers[0].scale_before = ahead.scalers[0].scale_after = 4096;
  driver.send(ahead);
  driver.close(driver.next, {0});
  const Finding* found = driver.find("ScalePolicyMismatch");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->subject, "default/rank drift");
  EXPECT_EQ(found->ranks, std::vector<Rank>{1});
}

}  // namespace
}  // namespace scalewatch::domain

// What is not a rule: segments, views, bounds, acknowledgements, odd inputs.
#include "server/domain/run_state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

TEST(RunState, ViewCountsAndFollowsTheScaler) {
  Driver driver({.ranks = 2, .parameters = {{"growth_interval", 4.0}}});
  driver.attempts(2, true);
  driver.attempts(4, false, [](AttemptDigest& digest) {
    digest.loss = 0.5;
    digest.grad_norm = 2;
    digest.scalers[0].growth_tracker = 3;
  });
  driver.send(ReportsLost{1, 5, 9, LossCause::kBufferFull, driver.now});
  const RunView view = driver.state.view();
  EXPECT_EQ(view.segment, 1u);
  EXPECT_EQ(view.attempts, 6u);
  EXPECT_EQ(view.applied, 4u);
  EXPECT_EQ(view.skipped, 2u);
  EXPECT_EQ(view.loss, 0.5);
  EXPECT_EQ(view.grad_norm, 2);
  EXPECT_EQ(view.last_step, 60);
  ASSERT_EQ(view.scalers.size(), 1u);
  EXPECT_EQ(view.scalers[0].scale, 32768);
  EXPECT_EQ(view.scalers[0].scale_first, 65536);
  EXPECT_EQ(view.scalers[0].scale_min, 16384);
  EXPECT_EQ(view.scalers[0].growths, 1u);
  EXPECT_FALSE(view.scalers[0].calibrating);
  ASSERT_EQ(view.ranks.size(), 2u);
  ASSERT_EQ(view.ranks[1].losses.size(), 1u);
  EXPECT_EQ(view.ranks[1].losses[0].reports, 5u);
  EXPECT_EQ(view.ranks[1].last_attempt, 6u);
}

TEST(RunState, ANewSegmentResolvesAndStartsCalibrationAnew) {
  Driver driver;
  driver.attempts(2, false);
  driver.attempts(6, true);
  ASSERT_TRUE(driver.open("ConsecutiveSkips"));
  driver.send(SegmentOpened{2, driver.now});
  EXPECT_FALSE(driver.open("ConsecutiveSkips"));
  driver.join(0);
  driver.next = 1;
  driver.attempts(8, true);
  EXPECT_EQ(driver.count("ConsecutiveSkips", Change::kOpened), 1);
  EXPECT_EQ(driver.state.view().attempts, 8u);
  driver.attempt(false);
  driver.attempts(5, true);
  EXPECT_EQ(driver.find("ConsecutiveSkips")->id, "ConsecutiveSkips/default/2.10");
  EXPECT_EQ(driver.find("ConsecutiveSkips")->segment, 2u);
}

TEST(RunState, OutcomesAreReadFromFoundInfThenFromTheScale) {
  const auto only_scale = [](AttemptDigest& digest) { digest.scalers[0].optimizers.clear(); };
  Driver scale;
  scale.attempts(3, false, only_scale);
  scale.attempts(2, true, only_scale);
  EXPECT_EQ(scale.state.view().applied, 3u);
  EXPECT_EQ(scale.state.view().skipped, 2u);
  Driver fixed({.policy = "static", .parameters = {{"init_scale", 128.0}}});
  fixed.attempts(3, false, only_scale);
  EXPECT_EQ(fixed.state.view().applied + fixed.state.view().skipped, 0u);  // its scale tells nothing
}

TEST(RunState, ARankFarAheadIsBoundedAndCostsTheOthersNothing) {
  Driver driver({.ranks = 2});
  driver.attempts(2, false);
  AttemptDigest ahead = driver.digest(1, false);
  ahead.scalers[0].scale_after = 65536;
  driver.send(ahead);
  for (Attempt attempt = driver.next + 1; attempt < driver.next + 5000; ++attempt) {
    ahead.attempt = attempt;
    driver.send(ahead);
  }
  EXPECT_LT(driver.state.save().size(), 600'000u);  // 2,048 attempts that wait, under 300 bytes each
  driver.attempts(6, true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 1); });
  EXPECT_TRUE(driver.open("ConsecutiveSkips"));
  EXPECT_EQ(driver.find("ConsecutiveSkips")->blame->tensor, "layers.1.weight");
}

TEST(RunState, MemoryStaysBoundedInALongBadRun) {
  Driver driver({.ranks = 2, .parameters = {{"growth_interval", 3.0}}});
  std::size_t at_half = 0;
  for (int i = 0; i < 2000; ++i) {
    driver.attempt(i % 2 == 0, [&](AttemptDigest& digest) {
      digest.loss = i % 5 == 0 ? NAN : 1.0;
      for (const auto id : {kWeight0, kAct1, kGrad2, kGrad1}) add_bad(digest, id, 1, 1);
    });
    driver.events.clear();
    if (i == 1000) at_half = driver.state.save().size();
  }
  EXPECT_LT(driver.state.save().size(), at_half + 4096);
}

TEST(RunState, LateReportsReopenNothing) {
  Driver driver({.ranks = 2});
  driver.attempts(2, false);
  AttemptDigest late = driver.digest(1, true);
  driver.send(driver.digest(0, false));
  driver.close(driver.next, {1});
  const RunView before = driver.state.view();
  late.loss = NAN;
  driver.send(late);
  driver.close(driver.next);
  EXPECT_TRUE(driver.events.empty());
  EXPECT_EQ(driver.state.view().attempts, before.attempts);
  EXPECT_EQ(driver.state.view().ranks[1].last_attempt, driver.next);
}

TEST(RunState, AcknowledgementStaysWithTheFinding) {
  Driver driver;
  driver.attempt(false);
  driver.attempts(5, true);
  driver.send(Acknowledged{"nothing/of/1.1", "ada", "", driver.now});
  EXPECT_EQ(driver.count("ConsecutiveSkips", Change::kAcknowledged), 0);
  driver.send(Acknowledged{driver.find("ConsecutiveSkips")->id, "ada", "looking", driver.now});
  EXPECT_EQ(driver.count("ConsecutiveSkips", Change::kAcknowledged), 1);
  driver.attempts(40, false);
  EXPECT_FALSE(driver.open("ConsecutiveSkips"));
  EXPECT_EQ(driver.find("ConsecutiveSkips")->acknowledged_by, "ada");
}

TEST(RunState, GoingOnIsToldNowAndThen) {
  Driver driver;
  driver.attempt(false);
  driver.attempts(5, true);
  driver.events.clear();
  driver.attempts(100, true);
  EXPECT_GE(driver.count("ConsecutiveSkips", Change::kUpdated), 3);
  EXPECT_LE(driver.count("ConsecutiveSkips", Change::kUpdated), 6);
  EXPECT_EQ(driver.state.view().open.front().last_attempt, 106u);  // the view is always current
}

TEST(RunState, SurvivesReportsOfScalersAndOptimizersThatNobodyDeclared) {
  Driver driver({.scaler = false});
  driver.attempts(10, false, [](AttemptDigest& digest) {
    ScalerObservation scaler;
    scaler.scaler = static_cast<std::uint32_t>(digest.attempt % 7 == 0 ? UINT32_MAX : digest.attempt % 3);
    scaler.scale_before = NAN;
    scaler.scale_after = -INFINITY;
    for (std::uint32_t i = 0; i < 300; ++i) {
      scaler.optimizers.push_back(
          {.optimizer = i * 1000, .found_inf_local = NAN, .found_inf_decided = -1, .outcome = Outcome::kUnknown});
    }
    digest.scalers = {scaler, scaler};
    digest.non_finite = {{.id = 4'000'000'000U, .nan = 1, .pos_inf = 0, .neg_inf = 0, .first_bad_micro = {}}};
    digest.replicas = {{UINT32_MAX, 1}};
    digest.recovered = {UINT32_MAX};
    digest.falling = FallingTensor{UINT32_MAX, 3};
  });
  EXPECT_LE(driver.state.view().scalers.size(), 8u);
  AttemptDigest bare;  // no table, of a rank that never joined
  bare.rank = 9;
  bare.attempt = driver.next;
  bare.non_finite = {{}};
  driver.send(bare);
  driver.close(driver.next);
  EXPECT_EQ(driver.state.view().ranks.size(), 2u);
}

}  // namespace
}  // namespace scalewatch::domain

// What only the shared history has is in lists, and lists say what they lack of it.
#include "server/fleet/shared_only.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

using ::testing::ElementsAre;

TEST_F(FleetTest, WhatOnlyTheSharedHistoryHasIsListedAndBrought) {
  engine::CommitBatch old;
  old.runs = {{.run_uid = "000000000000000a", .name = "old", .status = v1::RUN_STATUS_FINISHED, .overview = {}}};
  shared_.rows.commit(old);
  EXPECT_EQ(shared_.claim("old", "a server that was"), 1U);
  start_all(&shared_);
  Node& any = node("a");
  v1::ListRunsResponse runs;
  ASSERT_TRUE(any.history.list_runs({}, runs).ok());
  ASSERT_EQ(runs.runs_size(), 1);
  EXPECT_EQ(runs.runs(0).name(), "old");
  EXPECT_EQ(runs.runs(0).instance(), "a server that was");
  v1::ListRunsRequest others;
  others.set_status(v1::RUN_STATUS_RUNNING);
  runs.Clear();
  ASSERT_TRUE(any.history.list_runs(others, runs).ok());
  EXPECT_EQ(runs.runs_size(), 0);
  EXPECT_FALSE(any.fleet.owner_here("000000000000000a"));
  (void)any.run("old");
  EXPECT_TRUE(any.fleet.owner_here("000000000000000a"));
  EXPECT_FALSE(any.fleet.holds("old"));
}

// A killed server that comes back once the one that took its run over is gone, too.
TEST_F(FleetTest, AnOldStateOfARunGivesWayToWhatIsShared) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  shared_.rows.runs[uid].status = v1::RUN_STATUS_FINISHED;
  Node& back = start(names[0], &shared_);
  ASSERT_TRUE(eventually([&] { return back.fleet.owner_here(uid) == names[1]; }));
  ASSERT_EQ(back.store->find_run("run")->status, v1::RUN_STATUS_RUNNING);
  SharedOnly shared_only(back.fleet);
  shared_only.refresh({});
  const auto told = shared_only.runs({}, {{names[0], names[2]}});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].status(), v1::RUN_STATUS_FINISHED);
  EXPECT_TRUE(shared_only.runs({}, {{names[0], names[1]}}).empty());  // its server tells it
  const auto brought = [&] { return std::ranges::count(back.moves.seen(), std::string("import")); };
  for (int i = 0; i < 2; ++i) {
    (void)back.run("run");
    EXPECT_EQ(back.store->find_run("run")->status, v1::RUN_STATUS_FINISHED);
    EXPECT_EQ(last_place_in(*back.store, uid), last_place_in(shared_.rows, uid));
    EXPECT_EQ(brought(), 1);
  }
  EXPECT_FALSE(back.fleet.holds("run"));
}

// Claimed by another one that then sent nothing of it: what is here is the newest.
TEST_F(FleetTest, WhatNobodySentAnewSinceStaysAsItIsHere) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  EXPECT_EQ(shared_.claim("run", names[1]), 2U);
  kill(names[1]);
  shared_.rows.runs[uid].status = v1::RUN_STATUS_FINISHED;
  Node& back = start(names[0], &shared_);
  ASSERT_TRUE(eventually([&] { return back.fleet.owner_here(uid) == names[1]; }));
  (void)back.run("run");
  EXPECT_EQ(back.store->find_run("run")->status, v1::RUN_STATUS_RUNNING);
  SharedOnly shared_only(back.fleet);
  shared_only.refresh({});
  EXPECT_TRUE(shared_only.runs({}, {{names[0], names[2]}}).empty());
}

TEST_F(FleetTest, AListSaysWhereItEndsForItsLength) {
  engine::CommitBatch old;
  for (std::size_t i = 0; i < SharedOnly::kMaxRuns; ++i) {
    const std::string uid = std::to_string(i + 1'000'000);
    old.runs.push_back({.run_uid = uid, .name = uid, .status = v1::RUN_STATUS_FINISHED, .overview = {}});
  }
  for (std::size_t i = 0; i < SharedOnly::kMaxAlerts; ++i) {
    old.alerts.push_back({.id = "other/" + std::to_string(i), .run_uid = "other", .rule = {}, .alert = {}});
  }
  shared_.rows.commit(old);
  Node& one = start("a", &shared_);
  const auto notes = [&] {
    v1::ListRunsResponse runs;
    v1::ListRunsRequest few;
    few.set_page_size(1);
    const std::string note = one.history.list_runs(few, runs).note;
    return std::vector<std::string>{note, missing(one.locator, {}, Listed::kAlerts)};
  };
  EXPECT_TRUE(eventually([&] { return notes() == std::vector<std::string>{"", ""}; }));
  engine::CommitBatch more;
  more.runs = {{.run_uid = "one more", .name = "one more", .status = v1::RUN_STATUS_FINISHED, .overview = {}}};
  more.alerts = {{.id = "other/more", .run_uid = "other", .rule = {}, .alert = {}}};
  shared_.rows.commit(more);
  EXPECT_TRUE(eventually([&] { return !notes()[0].empty(); }));
  EXPECT_THAT(notes(),
              ElementsAre("the shared history has more than 10000 runs: older ones that only it has are missing",
                          "the shared history has more than 1000 open alerts: lesser ones that only it has are missing"));
}

TEST_F(FleetTest, AListThatWaitsForTheSharedHistoryHoldsNoOtherUp) {
  engine::CommitBatch old;
  old.runs = {{.run_uid = "000000000000000a", .name = "old", .status = v1::RUN_STATUS_FINISHED, .overview = {}}};
  shared_.rows.commit(old);
  Node& one = start("a", &shared_);
  SharedOnly shared_only(one.fleet);
  std::promise<void> go_on;
  std::atomic<int> asked{0};
  const auto gone_on = go_on.get_future().share();
  shared_only.refresh({});
  EXPECT_TRUE(shared_only.whole());
  shared_.at_list = [&, gone_on] {
    ++asked;
    gone_on.wait();
  };
  const auto list = [&] { return std::async(std::launch::async, [&] { shared_only.refresh({"a", "b"}); }); };
  const auto first = list();
  EXPECT_TRUE(eventually([&] { return asked > 0; }));
  const auto second = list();
  EXPECT_EQ(shared_only.runs({}, {{"a"}}).size(), 1U);  // what was read last
  shared_only.refresh({});                              // is good enough
  go_on.set_value();
  // Whoever waited for too long leaves; what was read counts all the same.
  first.wait();
  second.wait();
  EXPECT_TRUE(eventually([&] { return shared_only.whole(); }));
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace scalewatch::fleet::testing

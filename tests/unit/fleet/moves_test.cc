// A run moves one step at a time: what a server writes when it gives one up never lands on what it brings later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/fleet/run_list.h"
#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

using ::testing::ElementsAre;

class MovesTest : public FleetTest {
 protected:
  void TearDown() override {
    for (auto& [name, store] : stores_) store->refuse = false;  // or its server would not end
  }
  static std::string owner_in(MemoryStore& store) {
    const auto row = store.find_run("run");
    v1::GetRunResponse overview;
    EXPECT_TRUE(row && overview.ParseFromString(row->overview));
    return overview.run().instance();
  }
};

// It found that another one has the run, and its clients come while it looks: that one is gone by now.
TEST_F(MovesTest, AClientThatComesWhileAStartingServerLooksAtARunWaitsForThat) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  Gate gate;
  shared_.after_find = [&] { gate.wait_once(); };
  start(names[0], &shared_);
  ASSERT_TRUE(eventually([&] { return gate.used(); }));
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[0], 9, 9), names[0]);
  gate.open();
  ASSERT_NO_FATAL_FAILURE(share(*client, names[0], 10, 12));
  node(names[0]).clock.now += 200;
  EXPECT_TRUE(eventually([&] { return node(names[0]).run("run").attempts() == 12; }));
  EXPECT_THAT(node(names[0]).moves.seen(), ElementsAre("go", "go", "import", "come"));
}

// What it wrote of a run that another one has is not stored yet when it takes that run.
TEST_F(MovesTest, ARunIsBroughtBehindWhatWasStagedOfIt) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  stores_[names[0]]->refuse = true;
  Node& back = start(names[0], &shared_);
  std::string before;
  back.moves.at_import = [&] { before = owner_in(*stores_[names[0]]); };
  ASSERT_TRUE(eventually([&] { return !back.moves.seen().empty(); }));
  std::unique_ptr<TestClient> client;
  const auto joined = std::async(std::launch::async, [&] { return join(client, names[0], 9, 9); });
  EXPECT_TRUE(eventually([&] { return back.moves.seen().size() > 1; }));
  stores_[names[0]]->refuse = false;
  joined.wait();
  EXPECT_EQ(before, names[1]);  // was written, and then replaced
}

// The store takes its time with one run, and clients of all others come meanwhile: of the names below some would share any lock
// that is not of one run alone.
TEST_F(MovesTest, ARunThatIsBroughtHoldsNoOtherUp) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  kill(names[2]);
  Node& owner = node(names[1]);
  ASSERT_TRUE(eventually([&] { return owner.fleet.stats().peers_alive == 0; }));
  Gate gate;
  owner.moves.at_import = [&] { gate.wait_once(std::chrono::seconds(20)); };
  std::unique_ptr<TestClient> client;
  const auto joined = std::async(std::launch::async, [&] { return join(client, names[1], 3, 3); });
  ASSERT_TRUE(eventually([&] { return gate.used(); }));
  for (int i = 0; i < 500; ++i) {
    TestClient other(owner.engine, {.run = "run" + std::to_string(i)});
    ASSERT_TRUE(other.join()) << i;
  }
  EXPECT_THAT(owner.moves.seen(), ElementsAre("go", "import"));
  gate.open();
  EXPECT_EQ(joined.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(MovesTest, ARunThatIsBroughtForAQuestionHoldsNoTakeoverUp) {
  engine::CommitBatch old;
  old.runs = {{.run_uid = "000000000000000a", .name = "old", .status = v1::RUN_STATUS_FINISHED, .overview = {}}};
  shared_.rows.commit(old);
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  Node& owner = node(names[1]);
  Gate gate;
  owner.moves.at_import = [&] { gate.wait_once(std::chrono::seconds(20)); };
  const auto brought = std::async(std::launch::async, [&] { return owner.fleet.bring("old"); });
  ASSERT_TRUE(eventually([&] { return gate.used(); }));
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[1], 3, 3), names[1]);
  EXPECT_THAT(owner.moves.seen(), ElementsAre("go", "import", "go", "import", "come"));
  gate.open();
  EXPECT_EQ(brought.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

// Its clients were sent away, and one is back before the run is given up whole.
TEST_F(MovesTest, WhoComesWhileARunIsGivenUpWaitsForThat) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun_and_shared(names[0], 3);
  Node& owner = node(names[0]);
  Gate gate;
  owner.moves.at_go = [&] { gate.wait_once(); };
  EXPECT_EQ(shared_.claim("run", names[1]), 2U);
  shared_.row_terms.begin()->second = 2;  // and it has shared more
  const auto turned = std::async(std::launch::async, [&] { owner.feed->turn(); });
  ASSERT_TRUE(eventually([&] { return gate.used(); }));
  ASSERT_EQ(join(client, names[0], 3, 3), names[0]);
  gate.open();
  EXPECT_THAT(owner.moves.seen(), ElementsAre("go", "go", "import", "come"));
  EXPECT_EQ(owner.fleet.stats().yielded, 1U);
}

// The news that another one had claimed it came late: this server has claimed it again since.
TEST_F(MovesTest, WhatWasClaimedAgainIsNotGivenUpForAnOlderClaim) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  const auto then = shared_.find_run("run");
  start(names[0], &shared_);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[0], 9, 9), names[0]);
  start(names[1], &shared_);
  Node& owner = node(names[0]);
  ASSERT_TRUE(eventually([&] { return owner.fleet.stats().peers_alive == 2; }));
  ASSERT_EQ(then->term, 2U);
  owner.feed->lose(*then);
  ASSERT_NO_FATAL_FAILURE(send(*client, 10, 10));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it acts on that at once
  EXPECT_TRUE(owner.fleet.holds("run"));
  EXPECT_EQ(owner.fleet.stats().yielded, 0U);
}

// Of a job that was begun anew under its name: whoever asks for the older run must not cost the newer one.
TEST_F(MovesTest, AQuestionAboutAnotherRunOfANameReplacesNothing) {
  engine::CommitBatch batch;
  batch.runs = {{.run_uid = "000000000000000a", .name = "twice", .status = v1::RUN_STATUS_FINISHED, .overview = {}}};
  shared_.rows.commit(batch);
  start_all(&shared_);
  batch.runs.front().run_uid = "000000000000000b";
  stores_["a"]->commit(batch);
  EXPECT_FALSE(node("a").fleet.bring("000000000000000a"));
  EXPECT_TRUE(node("a").fleet.owner_here("000000000000000b"));
  EXPECT_TRUE(node("b").fleet.bring("000000000000000a"));
}

// It was lost when its server was killed, and another one went on with it: its alerts are that one's.
TEST_F(MovesTest, ALostRunThatAnotherServerHasIsGivenUpAtAStart) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  auto& row = stores_[names[0]]->runs[uid];
  row.status = v1::RUN_STATUS_LOST;
  row.worst_open = v1::SEVERITY_CRITICAL;
  Node& back = start(names[0], &shared_);
  EXPECT_TRUE(eventually([&] { return back.moves.seen() == std::vector<std::string>{"go"}; }));
  EXPECT_TRUE(eventually([&] { return owner_in(*stores_[names[0]]) == names[1]; }));
  EXPECT_FALSE(back.fleet.holds("run"));
}

// Nothing of it was shared, and it began anew elsewhere: with the first run of that name all would go that is known of its
// pages.
TEST_F(MovesTest, WhatIsReplacedByAnotherRunOfItsNameEnds) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun(names[0], 1);
  client.reset();
  kill(names[0]);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(0, 9));
  Node& back = start(names[0], &shared_);
  back.moves.leave_open({"uid/1"});
  ASSERT_EQ(join(client, names[0], 9, 9), names[0]);
  auto seen = back.moves.seen();
  std::erase(seen, "go");  // of both, and at the start where that is faster than the client
  EXPECT_THAT(seen, ElementsAre("end uid/1", "import", "come"));
}

// Nothing of it was shared, and what began anew elsewhere is another run: nobody tells of this one.
TEST_F(MovesTest, WhatBeganAnewElsewhereIsNobodysWhereItWas) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun(names[0], 3);
  client.reset();
  kill(names[0]);
  ASSERT_EQ(join(client, names[2], 3, 0), names[1]);
  ASSERT_NO_FATAL_FAILURE(share(*client, names[1], 1, 9));
  start(names[0], &shared_);
  EXPECT_TRUE(eventually([&] { return owner_in(*stores_[names[0]]) == kNobody; }));
}

// It gave the run up, and nobody had more of it: its alerts are those of before, and are compared with its findings.
TEST_F(MovesTest, WhatIsTakenBackHasItsAlertsAgain) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun_and_shared(names[0], 3);
  Node& owner = node(names[0]);
  EXPECT_EQ(shared_.claim("run", names[1]), 2U);
  owner.feed->turn();
  ASSERT_TRUE(eventually([&] { return owner.fleet.stats().yielded == 1U; }));
  ASSERT_EQ(join(client, names[0], 3, 3), names[0]);
  EXPECT_THAT(owner.moves.seen(), ElementsAre("go", "come"));
}

}  // namespace
}  // namespace scalewatch::fleet::testing

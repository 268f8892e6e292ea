// A server whose disk is full takes no run that another one can take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;

class OwnRoomTest : public FleetTest {
 protected:
  void TearDown() override {
    for (auto& [name, store] : stores_) store->refuse = false;  // or its server would not end
  }
  // The others are told so beside their next question.
  void fill(const std::string& name) {
    node(name).moves.has_room = false;
    for (const auto& [other, each] : nodes_) {
      if (other == name) continue;
      EXPECT_TRUE(eventually([&] {
        (void)each->fleet.holders("nothing");
        return !each->fleet.peers().named(name)->has_room();
      }));
    }
  }
  std::string claimed_by() {
    const std::lock_guard lock(shared_.mutex);
    return shared_.claims["run"].instance;
  }
};

TEST_F(OwnRoomTest, TheNextOneWithRoomTakesARunOver) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  fill(names[1]);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[1], 3, 3), names[2]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 3U);
  EXPECT_THAT(node(names[1]).moves.seen(), Not(Contains("import")));
  EXPECT_EQ(claimed_by(), names[2]);
}

TEST_F(OwnRoomTest, ANewRunBeginsWhereThereIsRoomAndStaysThere) {
  start_all(nullptr);
  const auto names = order();
  fill(names[0]);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[0], 0, 0), names[1]);
  node(names[0]).moves.has_room = true;
  EXPECT_TRUE(eventually([&] {
    (void)node(names[1]).fleet.holders("nothing");
    return node(names[1]).fleet.peers().named(names[0])->has_room();
  }));
  std::unique_ptr<TestClient> again;
  EXPECT_EQ(join(again, names[0], 0, 0), names[1]);
}

// Its history waits, and its alerts do not.
TEST_F(OwnRoomTest, WhereNobodyHasRoomANewRunIsWatchedAtItsHome) {
  start_all(&shared_);
  const auto names = order();
  for (const std::string& name : names) fill(name);
  std::unique_ptr<TestClient> client;
  EXPECT_EQ(join(client, names[2], 0, 0), names[0]);
}

// The disk has room, and what is brought is refused all the same: its clients go where it can be.
TEST_F(OwnRoomTest, WhatTheStoreRefusesIsTakenByTheNext) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  node(names[1]).moves.at_import = [] { throw history::OwnStoreError("disk full", true); };
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[1], 3, 3), names[2]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 3U);
  EXPECT_EQ(claimed_by(), names[2]);
}

TEST_F(OwnRoomTest, AStoreThatTakesNothingAtAllIsLeft) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  stores_[names[1]]->refuse = true;
  engine::CommitBatch staged;  // before it, and there for good
  staged.runs = {{.run_uid = "000000000000000a", .name = "old", .status = v1::RUN_STATUS_FINISHED, .overview = {}}};
  node(names[1]).engine.submit(std::move(staged), {});
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[1], 3, 3), names[2]);
  EXPECT_THAT(node(names[1]).moves.seen(), Not(Contains("import")));
}

// Nobody else has more of it: there is nothing to bring.
TEST_F(OwnRoomTest, WhatAFullServerHasItselfGoesOnThere) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun_and_shared(names[0], 3);
  Node& owner = node(names[0]);
  EXPECT_EQ(shared_.claim("run", names[1]), 2U);
  owner.feed->turn();
  ASSERT_TRUE(eventually([&] { return owner.fleet.stats().yielded == 1U; }));
  owner.feed->refuse = true;
  ASSERT_EQ(join(client, names[0], 3, 3), names[0]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 3U);
  owner.feed->refuse = false;
  EXPECT_TRUE(eventually([&] { return owner.feed->owns(client->peer().hello_ack()->run_uid()); }));
}

}  // namespace
}  // namespace scalewatch::fleet::testing

// Servers that can't know of each other, and have a run at once: one of them gives it up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

using ::testing::HasSubstr;

class TwoOwnersTest : public FleetTest {
 protected:
  std::uint64_t term() {
    const std::lock_guard lock(shared_.mutex);
    return shared_.claims["run"].term;
  }
};

// fleet.self is the same on both: neither can be the other's peer.
TEST_F(TwoOwnersTest, OfTwoServersOfOneNameTheOlderClaimYields) {
  const std::string name = order()[0];
  Node& first = start(name, &shared_);
  auto client = begun_and_shared(name, 3);
  Node second(name, name + "=127.0.0.1:" + std::to_string(free_port()), &shared_, std::make_shared<MemoryStore>());
  TestClient other(second.engine, {});
  ASSERT_TRUE(other.join(3, 3));
  const std::string uid = client->peer().hello_ack()->run_uid();
  EXPECT_EQ(other.peer().hello_ack()->run_uid(), uid);
  EXPECT_EQ(term(), 2U);
  first.feed->turn();
  ASSERT_TRUE(eventually([&] { return client->peer().ended().has_value(); }));
  EXPECT_EQ(client->peer().ended()->cause(), v1::FAULT_CAUSE_SHUTTING_DOWN);  // not MOVED: nobody knows where to
  EXPECT_EQ(client->peer().ended()->server(), "");
  EXPECT_TRUE(eventually([&] { return !first.fleet.holds("run"); }));
  EXPECT_EQ(first.fleet.stats().yielded, 1U);

  // While the second one has it the first one does not take it from there, whoever comes.
  for (std::uint64_t seq = 4; seq < 8; ++seq) {
    other.send_table();
    other.send(other.report(seq));
    ASSERT_TRUE(other.durable(seq));
    second.feed->turn();
    client->connect(first.engine);
    EXPECT_FALSE(client->join(3, 3));
    EXPECT_THAT(client->peer().ended()->message(), HasSubstr("another server that is called " + name));
  }
  EXPECT_EQ(term(), 2U);
  EXPECT_TRUE(second.fleet.holds("run"));
  // And once it stands still it is nobody's.
  EXPECT_TRUE(eventually([&] { return join(client, name, 7, 3) == name; }));
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 7U);
  EXPECT_GT(term(), 2U);
}

// It has nothing to share, so its feed does not find out.
TEST_F(TwoOwnersTest, AClientThatComesFindsTheOtherServerOfThatNameOut) {
  const std::string name = order()[0];
  Node& owner = start(name, &shared_);
  auto client = begun_and_shared(name, 3);
  EXPECT_EQ(shared_.claim("run", name), 2U);
  EXPECT_TRUE(eventually([&] {
    TestClient rank(owner.engine, {.rank = 1, .world_size = 2, .incarnation = 2});
    rank.join();
    return owner.fleet.stats().yielded == 1;
  }));
  EXPECT_TRUE(eventually([&] { return client->peer().ended().has_value(); }));
}

TEST_F(TwoOwnersTest, ARunOfAServerThatIsNotInTheListIsGivenUp) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun_and_shared(names[0], 3);
  Node& owner = node(names[0]);
  EXPECT_EQ(shared_.claim("run", "elsewhere"), 2U);
  owner.feed->turn();
  ASSERT_TRUE(eventually([&] { return client->peer().ended().has_value(); }));
  EXPECT_EQ(client->peer().ended()->cause(), v1::FAULT_CAUSE_MOVED);
  EXPECT_EQ(client->peer().ended()->server(), address(names[1]));  // whose list may have it
  EXPECT_TRUE(eventually([&] { return !owner.fleet.holds("run"); }));
}

// The feed was told of it before it was told that the run is fed under it.
TEST_F(TwoOwnersTest, AServersOwnClaimIsNoOtherOwner) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun_and_shared(names[0], 3);
  Node& owner = node(names[0]);
  auto there = shared_.find_run("run");
  ASSERT_EQ(there->instance, names[0]);
  owner.feed->lose(*there);
  // Of a run that is not in memory there is nothing to give up either.
  there->row.name = "other";
  there->term = 5;
  owner.feed->lose(*there);
  ASSERT_NO_FATAL_FAILURE(send(*client, 4, 4));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it acts on that at once
  EXPECT_TRUE(owner.fleet.holds("run"));
  EXPECT_EQ(owner.fleet.stats().yielded, 0U);
}

}  // namespace
}  // namespace scalewatch::fleet::testing

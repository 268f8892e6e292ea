// A run that is called as another one's run_uid is a run like any other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;

class NamesTest : public FleetTest {
 protected:
  // One of that name begins, is fed, and is another one than that of this run_uid.
  void begins_and_is_fed(const std::string& name, const std::string& at) {
    auto client = std::make_unique<TestClient>(node(at).engine, TestClient::Options{.run = name, .incarnation = 2});
    const std::string owner = join(client, at, 0, 0);
    ASSERT_TRUE(nodes_.contains(owner)) << owner;
    ASSERT_NO_FATAL_FAILURE(send(*client, 1, 3));
    const std::string uid = client->peer().hello_ack()->run_uid();
    EXPECT_NE(uid, name);
    EXPECT_TRUE(eventually([&] { return node(owner).feed->owns(uid); }));
    node(owner).feed->turn();
    EXPECT_EQ(shared_.find_named(name)->row.run_uid, uid);
    EXPECT_EQ(shared_.find_named(name)->instance, owner);
    EXPECT_FALSE(client->peer().ended());
    for (const auto& [each, node] : nodes_) {
      EXPECT_THAT(node->moves.seen(), Not(Contains("import"))) << each;
      EXPECT_EQ(node->fleet.stats().yielded, 0U) << each;
    }
  }
};

TEST_F(NamesTest, TheOtherRunIsWatchedAtThisMoment) {
  start_all(&shared_);
  const auto names = order();
  auto other = begun_and_shared(names[0], 3);
  const std::string uid = other->peer().hello_ack()->run_uid();
  ASSERT_NO_FATAL_FAILURE(begins_and_is_fed(uid, names[1]));
  EXPECT_TRUE(node(names[0]).fleet.holds("run"));
  EXPECT_TRUE(node(names[0]).feed->owns(uid));
  EXPECT_FALSE(other->peer().ended());
}

TEST_F(NamesTest, OnlyTheSharedHistoryHasTheOtherRun) {
  start_all(&shared_);
  const std::string uid = killed_with(3);
  {
    const std::lock_guard lock(shared_.rows.mutex);
    shared_.rows.runs[uid].status = v1::RUN_STATUS_FINISHED;  // nobody takes it over
  }
  ASSERT_NO_FATAL_FAILURE(begins_and_is_fed(uid, order()[1]));
}

}  // namespace
}  // namespace scalewatch::fleet::testing

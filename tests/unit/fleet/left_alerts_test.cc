// What becomes of alerts that were told by a server which lost their run and had not shared them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class LeftAlertsTest : public FleetTest {};

// Pages that it sent of a run which goes on elsewhere: nobody else knows of the first one.
TEST_F(LeftAlertsTest, WhoComesBackEndsThePagesThatNobodyElseKnowsOf) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[2], 3, 3), names[1]);
  node(names[1]).alerts.ids = {"uid/2", "uid/3"};  // found again, and not shared yet
  shared_.alerts = {"uid/1"};                      // came after it was brought
  Node& back = start(names[0], &shared_);
  back.moves.leave_open({"uid/1", "uid/2"});
  EXPECT_TRUE(eventually([&] { return back.moves.seen().size() > 1; }));
  EXPECT_THAT(back.moves.seen(), ElementsAre("go", "end uid/1"));
}

TEST_F(LeftAlertsTest, OfAServerThatIsGoneWhatItSharedGoesOn) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  {
    const std::lock_guard lock(shared_.rows.mutex);
    shared_.rows.runs[uid].status = v1::RUN_STATUS_FINISHED;  // nobody takes it over
  }
  shared_.alerts = {"uid/2"};
  Node& back = start(names[0], &shared_);
  back.moves.leave_open({"uid/1", "uid/2"});
  EXPECT_TRUE(eventually([&] { return back.moves.seen().size() > 1; }));
  EXPECT_THAT(back.moves.seen(), ElementsAre("go", "end uid/1"));
}

// Each question may take as long as all of them together.
TEST_F(LeftAlertsTest, AnOwnerIsAskedForAllPagesOfARunAtOnce) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[2], 3, 3), names[1]);
  node(names[1]).alerts.ids = {"uid/2"};
  node(names[1]).alerts.together = 3;
  Node& back = start(names[0], &shared_);
  back.moves.leave_open({"uid/1", "uid/2", "uid/3"});
  EXPECT_TRUE(eventually([&] { return back.moves.seen().size() > 2; }));
  EXPECT_THAT(back.moves.seen(), ElementsAre("go", "end uid/1", "end uid/3"));
  EXPECT_EQ(node(names[1]).alerts.asked, 3);
}

// The run's own clients come back while others are asked for its pages: it goes on here, and so do they.
TEST_F(LeftAlertsTest, WhileOthersAreAskedForPagesTheRunCanComeBack) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  const auto set_status = [&](v1::RunStatus status) {
    const std::lock_guard lock(shared_.rows.mutex);
    shared_.rows.runs[uid].status = status;
  };
  set_status(v1::RUN_STATUS_FINISHED);  // nobody takes it over for nobody
  Gate gate;
  shared_.at_alert_ids = [&] { gate.wait_once(std::chrono::seconds(20)); };
  Node& back = start(names[0], &shared_);
  back.moves.leave_open({"uid/1"});
  ASSERT_TRUE(eventually([&] { return gate.used(); }));
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[0], 9, 9), names[0]);
  EXPECT_THAT(back.moves.seen(), ElementsAre("go", "go", "import", "come"));
  gate.open();
  back.fleet.stop();  // by then it has acted on the answer
  EXPECT_THAT(back.moves.seen(), Not(Contains("end uid/1")));
}

}  // namespace
}  // namespace scalewatch::fleet::testing

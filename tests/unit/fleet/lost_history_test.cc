// A shared history that an older copy was put back of does not know of claims that stood.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

class LostHistoryTest : public FleetTest {
 protected:
  // As when the first server of the run had it: under term 1, with what that one has of it.
  void put_back(const std::string& uid) {
    const auto names = order();
    copy_run(uid, *stores_[names[0]], shared_.rows);
    const std::lock_guard lock(shared_.mutex);
    shared_.claims["run"] = {names[0], 1};
    shared_.row_terms[uid] = 1;
  }
  FakeShared::Claim claim() {
    const std::lock_guard lock(shared_.mutex);
    return shared_.claims["run"];
  }
};

// A term that is given twice would make the store of whoever had it first the newest one.
TEST_F(LostHistoryTest, WhoHadTheRunUnderALaterTermGoesAboveThatOne) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  EXPECT_EQ(claim().term, 2U);
  put_back(uid);
  start(names[1], &shared_);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[2], 9, 9), names[1]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 9U) << "what it has is newer";
  ASSERT_TRUE(eventually([&] { return node(names[1]).feed->owns(uid); }));
  EXPECT_EQ(claim().instance, names[1]);
  EXPECT_EQ(claim().term, 3U);
}

TEST_F(LostHistoryTest, WhoHasTheRunKeepsItWhenAnOlderClaimIsPutBack) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[2], 3, 3), names[1]);
  ASSERT_NO_FATAL_FAILURE(share(*client, names[1], 4, 9));
  put_back(uid);
  constexpr std::chrono::milliseconds kLookedAtAgain{300};
  std::this_thread::sleep_for(kLookedAtAgain);
  ASSERT_EQ(join(client, names[1], 9, 9), names[1]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 9U);
  EXPECT_EQ(node(names[1]).fleet.stats().yielded, 0U);
}

}  // namespace
}  // namespace scalewatch::fleet::testing

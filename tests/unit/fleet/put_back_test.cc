// A server's store that was put back from a backup misses what this server, or another one, has shared since.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

class PutBackTest : public FleetTest {
 protected:
  // Ends the owner; its store is as the copy, which `backup` made. `noticed`: its start finds that commits are missing.
  void put_back(const std::string& owner, std::shared_ptr<MemoryStore> copy, bool noticed) {
    const std::string uid = copy->runs.begin()->first;
    kill(owner);
    const std::lock_guard lock(shared_.mutex);
    shared_.terms[copy.get()] = shared_.terms[stores_[owner].get()];
    if (noticed) shared_.doubted[copy.get()][uid] = last_place_in(*copy, uid);
    stores_[owner] = std::move(copy);
  }
  std::shared_ptr<MemoryStore> backup(const std::string& owner) {
    auto copy = std::make_shared<MemoryStore>();
    const std::string uid = stores_[owner]->find_run("run")->run_uid;
    EXPECT_TRUE(copy_run(uid, *stores_[owner], *copy));
    return copy;
  }
  std::uint64_t term() {
    const std::lock_guard lock(shared_.mutex);
    return shared_.claims["run"].term;
  }
};

TEST_F(PutBackTest, WhatIsSharedTakesTheBackupsPlace) {
  for (const bool noticed : {false, true}) {
    start_all(&shared_);
    const std::string owner = order()[0];
    auto client = begun_and_shared(owner, 3);
    auto copy = backup(owner);
    ASSERT_NO_FATAL_FAILURE(share(*client, owner, 4, 9));
    const std::uint64_t before = term();
    client.reset();
    put_back(owner, copy, noticed);
    Node& back = start(owner, &shared_);
    // Whether or not its client comes.
    EXPECT_TRUE(eventually([&] { return back.fleet.stats().taken_over == 1; })) << noticed;
    EXPECT_GT(term(), before);
    ASSERT_EQ(join(client, owner, 9, 9), owner);
    EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 9U);
    EXPECT_EQ(last_place_in(*copy, copy->runs.begin()->first), last_place_in(shared_.rows, copy->runs.begin()->first));
    EXPECT_TRUE(shared_.doubted[copy.get()].empty());
    client.reset();
    for (const std::string& name : order()) kill(name);
    stores_.clear();
    shared_.rows.runs.clear();
  }
}

TEST_F(PutBackTest, ARunThatEndedMeanwhileIsNotRunningAnyMore) {
  start_all(&shared_);
  const std::string owner = order()[0];
  auto client = begun_and_shared(owner, 3);
  auto copy = backup(owner);
  ASSERT_NO_FATAL_FAILURE(share(*client, owner, 4, 9));
  client.reset();
  put_back(owner, copy, true);
  const std::string uid = copy->runs.begin()->first;
  shared_.rows.runs[uid].status = v1::RUN_STATUS_FINISHED;
  Node& back = start(owner, &shared_);
  EXPECT_TRUE(eventually([&] { return back.fleet.stats().taken_over == 1; }));
  EXPECT_TRUE(eventually([&] { return back.store->find_run("run")->status == v1::RUN_STATUS_FINISHED; }));
  back.feed->turn();
  EXPECT_EQ(shared_.rows.find_run("run")->status, v1::RUN_STATUS_FINISHED);
}

// What came after the start, while the shared history was away, does not make up for what is missing.
TEST_F(PutBackTest, WhatWentOnOnABackupDoesNotReplaceWhatIsShared) {
  start_all(&shared_);
  const std::string owner = order()[0];
  auto client = begun_and_shared(owner, 3);
  auto copy = backup(owner);
  ASSERT_NO_FATAL_FAILURE(share(*client, owner, 4, 6));
  client.reset();
  put_back(owner, copy, true);
  shared_.away = true;
  Node& back = start(owner, &shared_);
  ASSERT_EQ(join(client, owner, 6, 6), owner);
  ASSERT_NO_FATAL_FAILURE(send(*client, 7, 12));
  shared_.away = false;
  EXPECT_TRUE(eventually([&] { return back.fleet.stats().taken_over == 1; }));
  ASSERT_EQ(join(client, owner, 12, 6), owner);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 6U);
}

// Nothing of it is shared: it goes on with what is here. And of one that was looked at nothing is doubted any more.
TEST_F(PutBackTest, WhatIsNotSharedOrNotMissingStays) {
  start_all(&shared_);
  const std::string owner = order()[0];
  auto client = begun(owner, 3);
  auto copy = backup(owner);
  client.reset();
  put_back(owner, copy, true);
  Node& back = start(owner, &shared_);
  ASSERT_EQ(join(client, owner, 3, 3), owner);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 3U);
  EXPECT_EQ(back.fleet.stats().taken_over, 0U);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(shared_.mutex);
    return shared_.doubted[copy.get()].empty();
  }));
}

}  // namespace
}  // namespace scalewatch::fleet::testing

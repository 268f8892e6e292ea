#include "server/fleet/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fleet/fleet_fixture.h"

namespace scalewatch::fleet::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(FleetTest, ClientsAreSentToTheRunsHomeAndEveryServerAnswersForIt) {
  start_all(nullptr);
  const auto names = order();
  TestClient lost(node(names[2]).engine, {});
  EXPECT_FALSE(lost.join());
  ASSERT_TRUE(lost.peer().ended());
  EXPECT_EQ(lost.peer().ended()->cause(), v1::FAULT_CAUSE_MOVED);
  EXPECT_EQ(lost.peer().ended()->server(), address(names[0]));
  TestClient client(node(names[0]).engine, {});
  ASSERT_TRUE(client.join());
  client.send_table();
  client.send(client.report(1));
  ASSERT_TRUE(client.durable(1));
  for (const std::string& name : names) {
    EXPECT_TRUE(eventually([&] { return node(name).run("run").instance() == names[0]; })) << name;
  }
  EXPECT_EQ(node(names[2]).run("unknown").name(), "");
}

TEST_F(FleetTest, ARunStaysWithWhoTookItWhenItsHomeComesBack) {
  start_all(nullptr);
  const auto names = order();
  kill(names[0]);
  std::unique_ptr<TestClient> client;
  EXPECT_EQ(join(client, names[2], 0, 0), names[1]);
  start(names[0], nullptr);
  std::unique_ptr<TestClient> again;
  ASSERT_TRUE(eventually([&] { return node(names[0]).fleet.stats().peers_alive == 2; }));
  EXPECT_EQ(join(again, names[0], 0, 0), names[1]);
}

TEST_F(FleetTest, ATakeoverGoesOnFromWhatIsShared) {
  start_all(&shared_);
  const auto names = order();
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[0], 0, 0), names[0]);
  client->send_table();
  const auto report = [&](std::uint64_t seq) { return client->report(seq, seq % 5 == 0 ? 3 : 0); };
  for (std::uint64_t seq = 1; seq <= 12; ++seq) client->send(report(seq));
  ASSERT_TRUE(client->durable(12));
  const std::string uid = client->peer().hello_ack()->run_uid();
  ASSERT_TRUE(eventually([&] { return node(names[0]).feed->owns(uid); }));
  node(names[0]).feed->turn();
  for (std::uint64_t seq = 13; seq <= 20; ++seq) client->send(report(seq));
  ASSERT_TRUE(client->durable(20));
  client.reset();
  kill(names[0]);

  // It keeps what is not shared, and was told that 12 is.
  ASSERT_EQ(join(client, names[2], 20, 12), names[1]);
  EXPECT_EQ(client->peer().hello_ack()->run_uid(), uid);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 12U);
  client->send_table();
  for (std::uint64_t seq = 13; seq <= 30; ++seq) client->send(report(seq));
  ASSERT_TRUE(client->durable(30));
  EXPECT_EQ(node(names[1]).fleet.stats().taken_over, 1U);
  node(names[1]).clock.now += 100;
  ASSERT_TRUE(eventually([&] { return node(names[1]).run("run").attempts() == 30; }));
  EXPECT_EQ(node(names[1]).run("run").skipped(), 6U);
  EXPECT_EQ(node(names[1]).run("run").lost_reports(), 0U);
  EXPECT_EQ(stores_[names[1]]->reports(), 30U);
  EXPECT_EQ(stores_[names[1]]->repeated_reports, 0);

  // The one of before comes back: it is not its run any more.
  start(names[0], &shared_);
  std::unique_ptr<TestClient> other;
  EXPECT_EQ(join(other, names[0], 30, 30), names[1]);
  EXPECT_FALSE(node(names[0]).fleet.holds("run"));
}

// The first server had a few reports and died before they were shared: its clients, which were told of nothing, begin the run
// anew.
TEST_F(FleetTest, ARunThatBeganAnewElsewhereIsTakenOverByWhoeverHadItFirst) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun(names[0], 3);
  const std::string first_uid = client->peer().hello_ack()->run_uid();
  client.reset();
  kill(names[0]);
  ASSERT_EQ(join(client, names[2], 3, 0), names[1]);
  const std::string uid = client->peer().hello_ack()->run_uid();
  EXPECT_NE(uid, first_uid);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 0U);
  ASSERT_NO_FATAL_FAILURE(share(*client, names[1], 1, 9));
  client.reset();

  start(names[0], &shared_);
  ASSERT_TRUE(eventually([&] { return node(names[2]).fleet.stats().peers_alive == 2; }));
  EXPECT_FALSE(node(names[0]).fleet.holds("run"));
  kill(names[1]);
  ASSERT_EQ(join(client, names[2], 9, 9), names[0]);
  EXPECT_EQ(client->peer().hello_ack()->run_uid(), uid);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 9U);
  EXPECT_EQ(node(names[0]).run("run").lost_reports(), 0U);
}

// Its claim stood, and it was killed before it had brought what another one had: what it has is older.
TEST_F(FleetTest, AServerThatDiedWhileItTookARunOverBringsItAgain) {
  start_all(&shared_);
  const auto names = order();
  killed_with(3);
  ASSERT_NO_FATAL_FAILURE(taken_and_killed(3, 9));
  EXPECT_EQ(shared_.claim("run", names[0]), 3U);

  start(names[0], &shared_);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[2], 9, 9), names[0]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 9U);
  EXPECT_EQ(node(names[0]).run("run").lost_reports(), 0U);
}

// While the shared history was away it went on with what it had; then it learns that others had more.
TEST_F(FleetTest, WhatWentOnWhileTheHistoryWasAwayGivesWayToWhatIsThere) {
  required_ = false;
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[2], 3, 3), names[1]);
  ASSERT_TRUE(eventually([&] { return node(names[1]).feed->owns(uid); }));
  node(names[1]).feed->turn();
  client.reset();
  kill(names[1]);
  shared_.away = true;
  start(names[0], &shared_);
  ASSERT_TRUE(eventually([&] { return node(names[2]).fleet.stats().peers_alive == 1; }));
  ASSERT_EQ(join(client, names[0], 3, 3), names[0]);
  shared_.away = false;
  ASSERT_TRUE(eventually([&] { return node(names[0]).fleet.stats().yielded == 1U; }));
  ASSERT_TRUE(eventually([&] { return client->peer().ended().has_value(); }));
  ASSERT_EQ(join(client, names[0], 3, 3), names[0]);
  EXPECT_EQ(node(names[0]).fleet.stats().taken_over, 1U);
}

TEST_F(FleetTest, AServerThatComesBackBeforeOthersTookItsRunsGoesOn) {
  start_all(&shared_);
  const std::string home = order()[0];
  const std::string uid = killed_with(5);
  start(home, &shared_);
  // Without any client: somebody must notice when they stay away.
  EXPECT_TRUE(eventually([&] { return node(home).fleet.holds("run"); }));
  EXPECT_TRUE(node(home).feed->owns(uid));
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, home, 5, 5), home);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 5U);
  EXPECT_EQ(node(home).fleet.stats().taken_over, 0U);
}

// Nobody waited for the shared history as it ended, and its server was killed before all of it was there.
TEST_F(FleetTest, ARunThatEndedBeforeAllOfItWasSharedIsFedAfterARestart) {
  required_ = false;
  start_all(&shared_);
  const std::string home = order()[0];
  auto client = begun_and_shared(home, 3);
  const std::string uid = client->peer().hello_ack()->run_uid();
  client->send(client->report(4));
  ASSERT_TRUE(client->durable(4));
  client->goodbye();
  const auto ended = [&](MemoryStore& store) { return store.find_run(uid)->status == v1::RUN_STATUS_FINISHED; };
  ASSERT_TRUE(eventually([&] { return ended(*stores_[home]); }));
  client.reset();
  kill(home);
  shared_.away = true;  // as it starts
  Node& back = start(home, &shared_);
  EXPECT_FALSE(back.feed->owns(uid));
  shared_.away = false;
  ASSERT_TRUE(eventually([&] { return back.feed->owns(uid); }));
  back.feed->turn();
  EXPECT_EQ(shared_.rows.reports(), 4U);
  EXPECT_TRUE(ended(shared_.rows));
  EXPECT_FALSE(back.fleet.holds("run"));
}

// A server that lives for long has very many of them.
TEST_F(FleetTest, ARunThatIsOverIsForgottenAndItsNextJobIsTakenAnew) {
  start_all(&shared_);
  const std::string home = order()[0];
  Node& owner = node(home);
  auto client = begun_and_shared(home, 3);
  const std::string uid = client->peer().hello_ack()->run_uid();
  client->goodbye();
  ASSERT_TRUE(eventually([&] { return stores_[home]->find_run(uid)->status == v1::RUN_STATUS_FINISHED; }));
  client.reset();
  EXPECT_EQ(owner.fleet.stats().placed, 1U);
  owner.clock.now += 11 * 60'000;
  EXPECT_TRUE(eventually([&] { return owner.fleet.stats().placed == 0; }));
  EXPECT_FALSE(owner.feed->owns(uid));
  ASSERT_EQ(join(client, home, 3, 3), home);
  EXPECT_TRUE(eventually([&] { return owner.feed->owns(uid); }));
}

// All of its log was there, and not that it had ended.
TEST_F(FleetTest, AnEndThatWasNotSharedIsFedAfterARestart) {
  required_ = false;
  start_all(&shared_);
  const std::string home = order()[0];
  const std::string uid = killed_with(3);
  {
    const std::lock_guard lock(shared_.rows.mutex);
    shared_.rows.runs[uid].status = v1::RUN_STATUS_RUNNING;
  }
  stores_[home]->runs[uid].status = v1::RUN_STATUS_FINISHED;
  Node& back = start(home, &shared_);
  EXPECT_TRUE(eventually([&] { return back.feed->owns(uid); }));
  EXPECT_FALSE(back.fleet.holds("run"));
}

// Its trainers may have died with it: somebody must say so.
TEST_F(FleetTest, ARunWhoseServerIsGoneIsTakenOverWithoutItsClients) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun(names[0], 5);
  const std::string uid = client->peer().hello_ack()->run_uid();
  ASSERT_TRUE(eventually([&] { return node(names[0]).feed->owns(uid); }));
  node(names[0]).clock.now += 200;
  ASSERT_TRUE(eventually([&] { return stores_[names[0]]->find_run("run")->status == v1::RUN_STATUS_RUNNING; }));
  node(names[0]).feed->turn();
  client.reset();
  kill(names[0]);
  EXPECT_TRUE(eventually([&] { return node(names[1]).fleet.holds("run"); }));
  EXPECT_EQ(node(names[1]).fleet.stats().taken_over, 1U);
  EXPECT_FALSE(node(names[2]).fleet.holds("run"));
}

// It was asked for while its server was away; then that server went on with it, under the claim that it had.
TEST_F(FleetTest, WhatWasBroughtToAnswerAQuestionIsNoTakeover) {
  start_all(&shared_);
  const auto names = order();
  const std::string uid = killed_with(3);
  (void)node(names[1]).run("run");
  EXPECT_TRUE(node(names[1]).fleet.owner_here(uid));
  start(names[0], &shared_);
  std::unique_ptr<TestClient> client;
  ASSERT_EQ(join(client, names[0], 3, 3), names[0]);
  ASSERT_NO_FATAL_FAILURE(share(*client, names[0], 4, 9));
  client.reset();
  kill(names[0]);
  ASSERT_EQ(join(client, names[2], 9, 9), names[1]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 9U);
  EXPECT_EQ(node(names[1]).fleet.stats().taken_over, 1U);
  EXPECT_EQ(node(names[1]).run("run").lost_reports(), 0U);
}

TEST_F(FleetTest, OfTwoOwnersTheOlderClaimYields) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun_and_shared(names[0], 1);
  const std::string uid = client->peer().hello_ack()->run_uid();
  // The others can't reach it any more, and its clients can.
  node(names[0]).say_leaving();
  ASSERT_TRUE(eventually([&] { return node(names[1]).fleet.stats().peers_alive == 1; }));
  std::unique_ptr<TestClient> other;
  ASSERT_EQ(join(other, names[1], 1, 1), names[1]);
  ASSERT_TRUE(node(names[0]).fleet.holds("run"));
  node(names[0]).feed->turn();
  ASSERT_TRUE(eventually([&] { return client->peer().ended().has_value(); }));
  EXPECT_EQ(client->peer().ended()->cause(), v1::FAULT_CAUSE_MOVED);
  EXPECT_EQ(client->peer().ended()->server(), address(names[1]));
  EXPECT_TRUE(eventually([&] { return !node(names[0]).fleet.holds("run"); }));
  EXPECT_EQ(node(names[0]).fleet.stats().yielded, 1U);
  EXPECT_TRUE(node(names[1]).fleet.holds("run"));
}

TEST_F(FleetTest, AStoppingServerSharesItsRunsAndSendsTheirClientsOn) {
  start_all(&shared_);
  const auto names = order();
  auto client = begun(names[0], 9);
  const std::string uid = client->peer().hello_ack()->run_uid();
  ASSERT_TRUE(eventually([&] { return node(names[0]).feed->owns(uid); }));
  node(names[0]).say_leaving();
  node(names[0]).fleet.drain();
  ASSERT_TRUE(eventually([&] { return client->peer().ended().has_value(); }));
  EXPECT_EQ(client->peer().ended()->cause(), v1::FAULT_CAUSE_MOVED);
  EXPECT_EQ(client->peer().ended()->server(), address(names[1]));
  EXPECT_EQ(shared_.rows.reports(), 9U);
  ASSERT_EQ(join(client, names[0], 9, 9), names[1]);
  EXPECT_EQ(client->peer().hello_ack()->resume_after_seq(), 9U);
  EXPECT_EQ(client->peer().hello_ack()->run_uid(), uid);
}

TEST_F(FleetTest, WhereSharingIsRequiredNoPastIsLostForAHistoryThatIsAway) {
  start_all(&shared_);
  shared_.away = true;
  TestClient client(node(order()[0]).engine, {});
  EXPECT_FALSE(client.join());
  ASSERT_TRUE(client.peer().ended());
  EXPECT_EQ(client.peer().ended()->cause(), v1::FAULT_CAUSE_SHUTTING_DOWN);
  EXPECT_THAT(client.peer().ended()->message(), HasSubstr("shared history"));
}

}  // namespace
}  // namespace scalewatch::fleet::testing

#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>

#include "tests/unit/engine/fakes.h"

namespace scalewatch::engine::testing {
namespace {

using ::testing::HasSubstr;

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    options_.limits = default_limits();
    options_.commit_delay = std::chrono::milliseconds(1);
  }

  Engine& start() {
    engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
    return *engine_;
  }
  v1::GetRunResponse overview(const std::string& name = "run") {
    for (const auto& run : engine_->overviews()) {
      if (run->run().name() == name) return *run;
    }
    return {};
  }

  EngineOptions options_;
  MemoryStore store_;
  MemoryOutbox outbox_;
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, AcksWhatIsDurableAndShowsTheRun) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  EXPECT_TRUE(client.peer().hello_ack()->need_table());
  EXPECT_EQ(client.peer().hello_ack()->resume_after_seq(), 0U);
  client.send_table();
  for (std::uint64_t seq = 1; seq <= 20; ++seq) EXPECT_EQ(client.send(client.report(seq)), Stream::Next::kContinue);
  ASSERT_TRUE(client.durable(20));
  EXPECT_EQ(store_.reports(), 20U);
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().attempts() == 20; }));
  EXPECT_EQ(overview().run().applied(), 20U);
  EXPECT_EQ(overview().run().status(), v1::RUN_STATUS_RUNNING);
  EXPECT_EQ(engine_->stats().records, 40U);
}

TEST_F(EngineTest, GoodbyeFinishesTheStreamOnceAllIsDurable) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  client.send(client.report(1));
  EXPECT_EQ(client.goodbye(), Stream::Next::kStop);
  ASSERT_TRUE(eventually([&] { return client.peer().finished(); }));
  EXPECT_EQ(client.peer().durable(), 1U);
  clock_.now += 100;
  EXPECT_TRUE(eventually([&] { return overview().run().status() == v1::RUN_STATUS_FINISHED; }));
}

// Its stream may be open for a moment still, and a server that is killed then never says that it closed.
TEST_F(EngineTest, WhoSaidGoodbyeIsNotConnected) {
  TestClient zero(start(), {});
  ASSERT_TRUE(zero.join());
  zero.send_table();
  zero.send(zero.report(1));
  zero.goodbye();
  ASSERT_TRUE(eventually([&] { return zero.peer().finished(); }));
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().ranks(0).said_goodbye(); }));
  EXPECT_FALSE(overview().ranks(0).connected());
}

TEST_F(EngineTest, RepeatsAreDroppedAndGapsEndTheStream) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  client.send(client.report(1));
  EXPECT_EQ(client.send(client.report(1)), Stream::Next::kContinue);
  ASSERT_TRUE(client.durable(1));
  EXPECT_EQ(engine_->stats().reports_repeated, 1U);
  EXPECT_EQ(client.send(client.report(3)), Stream::Next::kStop);
  ASSERT_TRUE(client.peer().ended());
  EXPECT_EQ(client.peer().ended()->cause(), v1::FAULT_CAUSE_SEQ_GAP);
}

TEST_F(EngineTest, LossFillsAGapAndIsCounted) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  client.send(client.report(1));
  client.send_loss(2, 5);
  client.send(client.report(6));
  ASSERT_TRUE(client.durable(6));
  clock_.now += 100;
  EXPECT_TRUE(eventually([&] { return overview().run().lost_reports() == 4; }));
}

TEST_F(EngineTest, ALossOfMoreThanThereCanBeCostsItsClientOnly) {
  TestClient honest(start(), {.world_size = 2});
  TestClient hostile(*engine_, {.rank = 1, .world_size = 2});
  ASSERT_TRUE(honest.join() && hostile.join());
  hostile.send_loss(1, 3);
  EXPECT_EQ(hostile.send_loss(4, std::numeric_limits<std::uint64_t>::max()), Stream::Next::kStop);
  ASSERT_TRUE(hostile.peer().ended());
  EXPECT_EQ(hostile.peer().ended()->cause(), v1::FAULT_CAUSE_PROTOCOL);
  EXPECT_THAT(hostile.peer().ended()->message(), HasSubstr("18446744073709551615"));
  honest.send_loss(1, 2);
  ASSERT_TRUE(honest.durable(2));
  clock_.now += 100;
  EXPECT_TRUE(eventually([&] { return overview().run().lost_reports() == 5; }));
  EXPECT_EQ(engine_->stats().reports_lost, 5U);
}

TEST_F(EngineTest, ABadReportCostsOnlyItself) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  v1::Report bad = client.report(1);
  bad.mutable_blocks(0)->mutable_min()->RemoveLast();
  EXPECT_EQ(client.send(bad), Stream::Next::kContinue);
  client.send(client.report(2));
  ASSERT_TRUE(client.durable(2));
  ASSERT_EQ(client.peer().faults().size(), 1U);
  EXPECT_EQ(client.peer().faults()[0].cause(), v1::FAULT_CAUSE_BAD_REPORT);
  EXPECT_THAT(client.peer().faults()[0].message(), HasSubstr("column min has 1 values for 2 records"));
  EXPECT_EQ(store_.reports(), 1U);
}

TEST_F(EngineTest, ANewerIncarnationFencesTheOlderWhichCannotComeBack) {
  TestClient old_client(start(), {.incarnation = 1});
  ASSERT_TRUE(old_client.join());
  TestClient new_client(*engine_, {.incarnation = 2});
  ASSERT_TRUE(new_client.join());
  ASSERT_TRUE(eventually([&] { return old_client.peer().ended().has_value(); }));
  EXPECT_EQ(old_client.peer().ended()->cause(), v1::FAULT_CAUSE_FENCED);
  old_client.connect(*engine_);
  EXPECT_FALSE(old_client.join());
  EXPECT_EQ(old_client.peer().ended()->cause(), v1::FAULT_CAUSE_FENCED);
  EXPECT_FALSE(new_client.peer().ended());
}

// Clients' clocks tell who is newer only while the other one is there.
TEST_F(EngineTest, ARestartWhoseClockIsBehindIsTakenOnceTheOtherOneIsGone) {
  const auto refused = [](TestClient& client) { return client.peer().ended()->cause(); };
  {
    TestClient ahead(start(), {.incarnation = 9});
    ASSERT_TRUE(ahead.join());
    TestClient behind(*engine_, {.incarnation = 5});
    EXPECT_FALSE(behind.join());
    EXPECT_EQ(refused(behind), v1::FAULT_CAUSE_FENCED);
    ahead.send_table();
    ahead.send(ahead.report(1));
    ahead.goodbye();
    ASSERT_TRUE(eventually([&] { return ahead.peer().finished(); }));
    ASSERT_TRUE(behind.reconnect(*engine_, 0));
    EXPECT_EQ(behind.peer().hello_ack()->segment(), 2U);
    // What was here before it stays out.
    EXPECT_FALSE(ahead.reconnect(*engine_, 1));
    EXPECT_EQ(refused(ahead), v1::FAULT_CAUSE_FENCED);
    behind.send_table();
    behind.send(behind.report(1));
    ASSERT_TRUE(behind.durable(1));
    behind.stream().closed();
    behind.connect(*engine_);
    // Gone a moment ago: it may come back.
    TestClient third(*engine_, {.incarnation = 3});
    ASSERT_TRUE(eventually([&] {
      clock_.now += 100;
      return !overview().ranks().empty() && !overview().ranks(0).connected();
    }));
    EXPECT_FALSE(third.join());
    EXPECT_EQ(refused(third), v1::FAULT_CAUSE_SHUTTING_DOWN);
    clock_.now += 61'000;
    ASSERT_TRUE(third.reconnect(*engine_, 0));
    EXPECT_EQ(third.peer().hello_ack()->segment(), 3U);
    third.send_table();
    third.send(third.report(1));
    ASSERT_TRUE(third.durable(1));
  }
  engine_.reset();
  // Also after a restart.
  start();
  TestClient behind(*engine_, {.incarnation = 5});
  EXPECT_FALSE(behind.join(1));
  EXPECT_EQ(refused(behind), v1::FAULT_CAUSE_FENCED);
  TestClient third(*engine_, {.incarnation = 3});
  ASSERT_TRUE(third.join(1));
  EXPECT_EQ(third.peer().hello_ack()->resume_after_seq(), 1U);
}

TEST_F(EngineTest, AReconnectResumesAfterWhatWasTaken) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  for (std::uint64_t seq = 1; seq <= 5; ++seq) client.send(client.report(seq));
  ASSERT_TRUE(client.durable(5));
  client.connect(*engine_);
  ASSERT_TRUE(client.join());
  EXPECT_EQ(client.peer().hello_ack()->resume_after_seq(), 5U);
  client.send(client.report(6));
  EXPECT_TRUE(client.durable(6));
  EXPECT_EQ(store_.repeated_reports, 0);
}

// Taken is not durable: the client keeps it until the store has it, and the ack comes on the new connection.
TEST_F(EngineTest, AReconnectWhileTheStoreRefusesResumesAfterTheDurableAndIsAckedLater) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  for (std::uint64_t seq = 1; seq <= 3; ++seq) client.send(client.report(seq));
  ASSERT_TRUE(client.durable(3));
  store_.refuse = true;
  client.send(client.report(4));
  client.send(client.report(5));
  ASSERT_TRUE(eventually([&] { return engine_->stats().history_degraded; }));
  client.connect(*engine_);
  ASSERT_TRUE(client.join());
  EXPECT_EQ(client.peer().hello_ack()->resume_after_seq(), 3U);
  client.send(client.report(4));
  client.send(client.report(5));
  EXPECT_EQ(engine_->stats().reports_repeated, 2U);
  EXPECT_EQ(client.peer().durable(), 0U);
  store_.refuse = false;
  EXPECT_TRUE(client.durable(5));
  EXPECT_EQ(store_.repeated_reports, 0);
}

TEST_F(EngineTest, AStoreThatRefusesIsAFindingOfTheRunUntilItTakesAgain) {
  options_.thresholds_of = [](const std::string& run) {
    domain::Thresholds thresholds;
    if (run == "run") thresholds.history_degraded_after_ms = 1;
    return thresholds;
  };
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  client.send(client.report(1));
  ASSERT_TRUE(client.durable(1));
  store_.refuse = true;
  client.send(client.report(2));
  const auto open = [&](bool wanted) {
    return eventually([&] {
      clock_.now += 10;
      bool found = false;
      for (const auto& run : engine_->overviews()) {
        for (const auto& finding : run->findings()) found = found || finding.rule() == "HistoryDegraded";
      }
      return found == wanted;
    });
  };
  EXPECT_TRUE(open(true));
  store_.refuse = false;
  EXPECT_TRUE(open(false));
  EXPECT_TRUE(client.durable(2));
}

TEST_F(EngineTest, ARestartOfAllRanksOpensASegment) {
  {
    TestClient client(start(), {.incarnation = 1});
    ASSERT_TRUE(client.join());
    client.send_table();
    client.send(client.report(1));
    ASSERT_TRUE(client.durable(1));
  }
  TestClient again(*engine_, {.incarnation = 2});
  ASSERT_TRUE(again.join());
  EXPECT_EQ(again.peer().hello_ack()->segment(), 2U);
}

TEST_F(EngineTest, ARunIsTakenUpOnlyOnceItsRemovalIsDone) {
  std::string uid;
  {
    TestClient before(start(), {});
    ASSERT_TRUE(before.join());
    before.send_table();
    before.send(before.report(1));
    before.goodbye();
    ASSERT_TRUE(eventually([&] { return before.peer().finished(); }));
    uid = before.peer().hello_ack()->run_uid();
  }
  EXPECT_FALSE(engine_->unless_held("run", [] { FAIL() << "it is in memory"; }));
  EXPECT_FALSE(engine_->unless_held("run", {}));
  engine_.reset();

  start();
  EXPECT_TRUE(engine_->unless_held("run", {}));
  TestClient after(*engine_, {.incarnation = 2});
  EXPECT_TRUE(engine_->unless_held("run", [&] {
    EXPECT_FALSE(after.join());
    EXPECT_EQ(after.peer().ended()->cause(), v1::FAULT_CAUSE_SHUTTING_DOWN);
    store_.clear();
  }));
  ASSERT_TRUE(after.reconnect(*engine_, 0));
  EXPECT_NE(after.peer().hello_ack()->run_uid(), uid);
  EXPECT_THROW(engine_->unless_held("other", [] { throw StoreError("full", true); }), StoreError);
  EXPECT_TRUE(engine_->unless_held("other", {}));
  TestClient other(*engine_, {.run = "other"});
  EXPECT_TRUE(other.join());
}

TEST_F(EngineTest, AttemptsCloseWhenAllLiveRanksReportedOrByTime) {
  TestClient zero(start(), {.rank = 0, .world_size = 2});
  TestClient one(*engine_, {.rank = 1, .world_size = 2});
  ASSERT_TRUE(zero.join());
  ASSERT_TRUE(one.join());
  zero.send_table();
  one.send_table();
  zero.send(zero.report(1));
  one.send(one.report(1));
  zero.send(zero.report(2));
  ASSERT_TRUE(zero.durable(2));
  ASSERT_TRUE(one.durable(1));
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().attempts() == 1; }));
  clock_.now += 2'000;
  EXPECT_TRUE(eventually([&] { return overview().run().attempts() == 2; }));
}

// After a restart of the server the first rank back sends all that it had kept before the second one is here.
TEST_F(EngineTest, ARankThatIsOnItsWayBackIsWaitedFor) {
  TestClient zero(start(), {.rank = 0, .world_size = 2});
  TestClient one(*engine_, {.rank = 1, .world_size = 2});
  ASSERT_TRUE(zero.join());
  ASSERT_TRUE(one.join());
  zero.send_table();
  one.send_table();
  zero.send(zero.report(1));
  one.send(one.report(1));
  ASSERT_TRUE(zero.durable(1));
  ASSERT_TRUE(one.durable(1));
  one.stream().closed();
  for (std::uint64_t seq = 2; seq <= 60; ++seq) zero.send(zero.report(seq));
  ASSERT_TRUE(zero.durable(60));
  clock_.now += 3'000;
  ASSERT_TRUE(one.reconnect(*engine_, /*last_seq=*/60));
  for (std::uint64_t seq = 2; seq <= 60; ++seq) {
    v1::Report report = one.report(seq);
    if (seq == 40) report.set_loss(std::numeric_limits<double>::quiet_NaN());
    one.send(report);
  }
  ASSERT_TRUE(one.durable(60));
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().attempts() == 60; }));
  EXPECT_EQ(engine_->stats().reports_late, 0U);
  EXPECT_TRUE(store_.has_alert("NonFiniteLoss"));
}

TEST_F(EngineTest, ARankThatStaysAwayIsWaitedForNoLongerThanItMayTake) {
  TestClient zero(start(), {.rank = 0, .world_size = 2});
  TestClient one(*engine_, {.rank = 1, .world_size = 2});
  ASSERT_TRUE(zero.join());
  ASSERT_TRUE(one.join());
  zero.send_table();
  one.stream().closed();
  for (std::uint64_t seq = 1; seq <= 20; ++seq) zero.send(zero.report(seq));
  ASSERT_TRUE(zero.durable(20));
  EXPECT_EQ(overview().run().attempts(), 0U);
  clock_.now += 36'000;
  EXPECT_TRUE(eventually([&] { return overview().run().attempts() == 20; }));
}

TEST_F(EngineTest, RanksThatJoinAMomentLaterMissNothing) {
  TestClient zero(start(), {.rank = 0, .world_size = 2});
  ASSERT_TRUE(zero.join());
  zero.send_table();
  for (std::uint64_t seq = 1; seq <= 20; ++seq) zero.send(zero.report(seq));
  ASSERT_TRUE(zero.durable(20));
  TestClient one(*engine_, {.rank = 1, .world_size = 2});
  ASSERT_TRUE(one.join(/*last_seq=*/20));  // it trained beside the other, and kept its reports
  one.send_table();
  for (std::uint64_t seq = 1; seq <= 20; ++seq) one.send(one.report(seq));
  ASSERT_TRUE(one.durable(20));
  clock_.now += 100;
  EXPECT_TRUE(eventually([&] { return overview().run().attempts() == 20; }));
  EXPECT_EQ(engine_->stats().reports_late, 0U);
}

TEST_F(EngineTest, ARestartWithMoreRanksOpensASegmentWhicheverRankComesFirst) {
  start();
  std::uint8_t incarnation = 0;
  const auto job = [&](const std::vector<std::uint32_t>& order) {
    const auto world = static_cast<std::uint32_t>(order.size());
    clock_.now += 1'000;  // a job starts after the one before has ended
    std::vector<std::unique_ptr<TestClient>> clients;
    for (const std::uint32_t rank : order) {
      clients.push_back(std::make_unique<TestClient>(
          *engine_,
          TestClient::Options{.rank = rank, .world_size = world, .incarnation = ++incarnation, .start_ms = clock_.wall_ms()}));
      EXPECT_TRUE(clients.back()->join());
      clients.back()->send_table();
    }
    for (auto& client : clients) client->send(client->report(1));
    for (auto& client : clients) client->goodbye();
    for (auto& client : clients) EXPECT_TRUE(eventually([&] { return client->peer().finished(); }));
    return clients.front()->peer().hello_ack()->segment();
  };
  EXPECT_EQ(job({0, 1}), 1U);
  EXPECT_EQ(job({0}), 2U);
  EXPECT_EQ(job({1, 0}), 3U) << "rank 1 was last seen in segment 1, and segment 2 has ended";
  EXPECT_EQ(job({2, 1, 0}), 4U) << "rank 2 is new";
}

TEST_F(EngineTest, ALostRankThatComesBackResolvesItsFinding) {
  TestClient zero(start(), {.rank = 0, .world_size = 2});
  TestClient one(*engine_, {.rank = 1, .world_size = 2});
  ASSERT_TRUE(zero.join());
  ASSERT_TRUE(one.join());
  zero.send_table();
  one.send_table();
  std::uint64_t seq = 1;
  one.send(one.report(1));
  for (int i = 0; i < 13; ++i) {
    zero.send(zero.report(seq));
    ASSERT_TRUE(zero.durable(seq++));
    clock_.now += 5'000;
  }
  ASSERT_TRUE(eventually([&] { return store_.has_alert("RankLost"); }));
  zero.send(zero.report(seq));
  one.send(one.report(2));
  ASSERT_TRUE(one.durable(2));
  EXPECT_TRUE(eventually([&] { return store_.has_key("RankLost", "/resolved"); }));
}

TEST_F(EngineTest, ARunWhoseRanksBeatAndReportNothingIsStalledUnlessItEvaluates) {
  TestClient evaluates(start(), {.run = "evaluates"});
  TestClient hangs(*engine_, {.run = "hangs"});
  for (TestClient* client : {&evaluates, &hangs}) {
    ASSERT_TRUE(client->join());
    client->send_table();
    for (std::uint64_t seq = 1; seq <= 25; ++seq) client->send(client->report(seq));
    ASSERT_TRUE(client->durable(25));
  }
  for (int i = 0; i < 25; ++i) {
    clock_.now += 30'000;
    evaluates.beat(v1::PHASE_EVAL);
    hangs.beat(v1::PHASE_TRAIN);
  }
  ASSERT_TRUE(eventually([&] { return store_.has_alert("RunStalled"); }));
  hangs.send(hangs.report(26));
  ASSERT_TRUE(hangs.durable(26));
  EXPECT_TRUE(eventually([&] { return store_.has_key("RunStalled", "/resolved"); }));
  std::lock_guard lock(store_.mutex);
  for (const auto& [id, row] : store_.alerts) {
    if (row.rule == "RunStalled") {
      EXPECT_EQ(store_.runs[row.run_uid].name, "hangs");
    }
  }
}

TEST_F(EngineTest, AWildAttemptNumberCostsItsReportOnly) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  client.send(client.report(1));
  v1::Report wild = client.report(2);
  wild.set_attempt(1ULL << 40);
  client.send(wild);
  client.send(client.report(3));
  ASSERT_TRUE(client.durable(3));
  ASSERT_EQ(client.peer().faults().size(), 1U);
  EXPECT_THAT(client.peer().faults()[0].message(), HasSubstr("too far after 1"));
  EXPECT_EQ(store_.reports(), 2U);
}

TEST_F(EngineTest, AStoreThatRefusesHoldsBackAcksAndLosesNothing) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  client.send(client.report(1));
  ASSERT_TRUE(client.durable(1));
  store_.refuse = true;
  client.send(client.report(2));
  ASSERT_TRUE(eventually([&] { return engine_->stats().history_degraded; }));
  EXPECT_EQ(client.peer().durable(), 1U);
  store_.refuse = false;
  EXPECT_TRUE(client.durable(2));
  EXPECT_FALSE(engine_->stats().history_degraded);
}

TEST_F(EngineTest, AFullQueuePausesTheStreamAndRoomResumesIt) {
  options_.stream_queue_bytes = 4096;
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  ASSERT_TRUE(eventually([&] { return store_.commits > 0; }));
  const int resumes = client.peer().resumes();
  store_.refuse = true;
  Stream::Next next = Stream::Next::kContinue;
  std::uint64_t seq = 0;
  while (next == Stream::Next::kContinue && seq < 1000) {
    ++seq;
    next = client.send(client.report(seq));
  }
  ASSERT_EQ(next, Stream::Next::kPause);
  EXPECT_EQ(client.peer().resumes(), resumes);
  store_.refuse = false;
  EXPECT_TRUE(eventually([&] { return client.peer().resumes() == resumes + 1; }));
  EXPECT_TRUE(client.durable(seq));
}

TEST_F(EngineTest, StopEndsStreamsAndKeepsWhatWasTaken) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  for (std::uint64_t seq = 1; seq <= 10; ++seq) client.send(client.report(seq));
  engine_->stop();
  ASSERT_TRUE(client.peer().ended());
  EXPECT_EQ(client.peer().ended()->cause(), v1::FAULT_CAUSE_SHUTTING_DOWN);
  EXPECT_EQ(store_.reports(), 10U);
  EXPECT_EQ(store_.snapshots.size(), 1U);
}

TEST_F(EngineTest, AcknowledgeIsLoggedAndUnknownAlertsAreRefused) {
  TestClient client(start(), {});
  ASSERT_TRUE(client.join());
  client.send_table();
  std::uint64_t seq = 0;
  while (seq < 20) {
    ++seq;
    client.send(client.report(seq));
  }
  for (int i = 0; i < 6; ++i) {
    ++seq;
    client.send(client.report(seq, 3));
  }
  ASSERT_TRUE(client.durable(seq));
  std::string id;
  {
    std::lock_guard lock(store_.mutex);
    for (const auto& [key, row] : store_.alerts) {
      if (row.rule == "ConsecutiveSkips") id = key;
    }
  }
  ASSERT_FALSE(id.empty());
  std::atomic<int> answers{0};
  engine_->acknowledge(id, "on-call", "looking", [&](const Status& status) {
    EXPECT_TRUE(status.ok()) << status.message;
    ++answers;
  });
  engine_->acknowledge("nosuchrun/Rule/1", "on-call", "", [&](const Status& status) {
    EXPECT_THAT(status.message, HasSubstr("unknown alert"));
    EXPECT_EQ(status.code, Status::kNotFound);
    ++answers;
  });
  engine_->acknowledge(id + "x", "on-call", "", [&](const Status& status) {
    EXPECT_THAT(status.message, HasSubstr("not open"));
    EXPECT_EQ(status.code, Status::kFailedPrecondition);
    ++answers;
  });
  EXPECT_TRUE(eventually([&] { return answers == 3; }));
}

// Of a run that was lost with something open, and whose alert somebody acknowledges: kOk, and what is wrong.
class LostRun : public EngineTest {
 protected:
  void lose(bool leave_memory) {
    {
      TestClient client(start(), {});
      ASSERT_TRUE(client.join());
      client.send_table();
      std::uint64_t seq = 0;
      while (seq < 20) client.send(client.report(++seq));
      while (seq < 26) client.send(client.report(++seq, 3));
      ASSERT_TRUE(client.durable(seq));
    }
    clock_.now += 70'000;
    ASSERT_TRUE(eventually([&] { return store_.find_run("run")->status == v1::RUN_STATUS_LOST; }));
    {
      std::lock_guard lock(store_.mutex);
      for (const auto& [key, row] : store_.alerts) {
        if (row.rule == "ConsecutiveSkips") id_ = key;
      }
    }
    ASSERT_FALSE(id_.empty());
    if (!leave_memory) return;
    clock_.now += 700'000;
    ASSERT_TRUE(eventually([&] { return !engine_->holds("run"); }));
  }
  Status acknowledge() {
    auto answer = std::make_shared<std::promise<Status>>();
    engine_->acknowledge(id_, "on-call", "", [answer](const Status& status) { answer->set_value(status); });
    auto future = answer->get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) return {Status::kInternal, "no answer"};
    return future.get();
  }
  std::string id_;
};

// Its alert is known and open, whatever keeps the run from being taken up at this moment.
TEST_F(LostRun, WhatCannotBeAcknowledgedNowIsNotUnknown) {
  options_.max_runs = 1;
  lose(true);
  {
    TestClient other(*engine_, {.run = "other"});
    ASSERT_TRUE(other.join());
    const Status status = acknowledge();
    EXPECT_EQ(status.code, Status::kUnavailable) << status.message;
    EXPECT_THAT(status.message, HasSubstr("the configured limit"));
  }
  store_.cannot_be_read = true;
  const Status status = acknowledge();
  EXPECT_EQ(status.code, Status::kUnavailable) << status.message;
  EXPECT_THAT(status.message, HasSubstr("readers are busy"));
  store_.cannot_be_read = false;
  options_.max_runs = 100;
  start();
  EXPECT_TRUE(acknowledge().ok());
}

// On a full disk the alert is stored, and what it follows from is not (see AlertOutbox::reconcile).
TEST_F(LostRun, AnAcknowledgementThatOnlyTheAlertKnowsOfIsLoggedAgain) {
  lose(true);
  outbox_.lost = {{id_.substr(id_.find('/') + 1), "ann", "on it", clock_.wall_ms() - 5}};
  start().adopt("run");
  const std::string uid = store_.find_run("run")->run_uid;
  EXPECT_TRUE(eventually([&] {
    std::lock_guard lock(store_.mutex);
    const auto& input = store_.log.at(uid).rbegin()->second.input;
    if (!input || input->payload.find("acknowledged") == std::string::npos) return false;
    return input->payload.find("on it") != std::string::npos;
  }));
}

// What is logged to a run that has left memory would be at a position that the run, read back, gives out again.
TEST_F(LostRun, WhoAcknowledgesAsItLeavesMemoryTakesItUpAgain) {
  lose(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // runs that are gone were looked at
  std::promise<void> go_on;
  std::atomic<bool> held{false};
  // The run's strand stands still, and then comes what lets go of it before the acknowledgement.
  engine_->change_rules([&, gate = go_on.get_future().share(), rules = options_.thresholds](const std::string& /*run*/) {
    if (!held.exchange(true)) gate.wait();
    return rules;
  });
  ASSERT_TRUE(eventually([&] { return held.load(); }));
  clock_.now += 700'000;
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  std::promise<Status> answer;
  engine_->acknowledge(id_, "on-call", "", [&](const Status& status) { answer.set_value(status); });
  go_on.set_value();
  EXPECT_TRUE(answer.get_future().get().ok());
  EXPECT_TRUE(engine_->holds("run"));
}

// A killed server: whatever was durable at a random moment refolds to the same findings and keys as a run without a crash.
TEST_F(EngineTest, ARestartFromAnyDurablePointEndsInTheSameFindings) {
  const auto script = [](TestClient& client, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t seq = from; seq <= to; ++seq) client.send(client.report(seq, seq % 40 > 30 ? 2 : 0));
  };
  constexpr std::uint64_t kReports = 160;
  std::set<std::string> expected;
  {
    TestClient client(start(), {});
    ASSERT_TRUE(client.join());
    client.send_table();
    script(client, 1, kReports);
    ASSERT_TRUE(client.durable(kReports));
    engine_->stop();
    std::lock_guard lock(store_.mutex);
    for (const auto& key : store_.outbox) expected.insert(key.substr(key.find('/')));
  }
  ASSERT_FALSE(expected.empty());

  for (const std::uint64_t cut : {1U, 31U, 36U, 40U, 75U, 100U, 159U}) {
    options_.snapshot_every = std::chrono::milliseconds(cut % 2 == 0 ? 10'000 : 1);
    MemoryStore before;
    MemoryStore after;
    {
      Engine first(options_, before, outbox_, clock_);
      TestClient client(first, {});
      ASSERT_TRUE(client.join());
      client.send_table();
      script(client, 1, cut);
      ASSERT_TRUE(client.durable(cut));
      clock_.now += 200;
      ASSERT_TRUE(eventually([&] { return before.find_run("run")->status == v1::RUN_STATUS_RUNNING; }));
      before.copy_to(after);  // the kill: nothing that the old server does later counts
    }
    Engine second(options_, after, outbox_, clock_);
    TestClient client(second, {});
    ASSERT_TRUE(client.join());
    const std::uint64_t resume = client.peer().hello_ack()->resume_after_seq();
    EXPECT_EQ(resume, cut);
    if (client.peer().hello_ack()->need_table()) client.send_table();
    script(client, resume + 1, kReports);
    ASSERT_TRUE(client.durable(kReports));
    second.stop();
    std::set<std::string> keys;
    for (const auto& key : after.outbox) keys.insert(key.substr(key.find('/')));
    EXPECT_EQ(keys, expected) << "cut at " << cut;
    EXPECT_EQ(after.repeated_reports, 0) << "cut at " << cut;
    EXPECT_EQ(after.reports(), kReports) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace scalewatch::engine::testing

// A store that refuses the rows of one run for good: that run's history stops, nobody else's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/fakes.h"

namespace scalewatch::engine::testing {
namespace {

using ::testing::HasSubstr;

class RefusedRun : public ::testing::Test {
 protected:
  RefusedRun() {
    options_.limits = default_limits();
    options_.commit_delay = std::chrono::milliseconds(20);  // so that both runs are in one transaction
    options_.thresholds.history_degraded_after_ms = 1;
    store_.takes_alerts = true;
    engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  }

  // Joined, with one report that is durable.
  std::unique_ptr<TestClient> client(const std::string& run) {
    auto out = std::make_unique<TestClient>(*engine_, TestClient::Options{.run = run});
    EXPECT_TRUE(out->join());
    out->send_table();
    out->send(out->report(1));
    EXPECT_TRUE(out->durable(1));
    return out;
  }
  void refuse(const std::string& run) { store_.refuse_run(store_.find_run(run)->run_uid); }
  bool finds(const std::string& run, const std::string& rule) {
    for (const auto& each : engine_->overviews()) {
      if (each->run().name() != run) continue;
      for (const auto& finding : each->findings()) {
        if (finding.rule() == rule) return true;
      }
    }
    return false;
  }
  // What the store has of a run's log, in order: every pos up to the last one must be there.
  bool log_is_whole(const std::string& run) {
    const std::string uid = store_.find_run(run)->run_uid;
    std::lock_guard lock(store_.mutex);
    std::uint64_t expected = 0;
    for (const auto& [pos, entry] : store_.log[uid]) {
      if (pos != ++expected) return false;
    }
    return expected > 0;
  }

  EngineOptions options_;
  MemoryStore store_;
  MemoryOutbox outbox_;
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(RefusedRun, StopsAloneAndGoesOnOnceItIsTaken) {
  const auto good = client("good");
  const auto bad = client("bad");
  refuse("bad");
  for (std::uint64_t seq = 2; seq <= 20; ++seq) {
    bad->send(bad->report(seq, seq == 3 ? 5 : 0));
    good->send(good->report(seq));
    if (seq % 5 != 0) continue;
    EXPECT_TRUE(good->durable(seq));  // in several transactions
  }
  EXPECT_TRUE(good->durable(20));
  EXPECT_EQ(bad->peer().durable(), 1U);
  EXPECT_TRUE(log_is_whole("bad"));

  // It is told, and it alone; what it finds is stored ahead of its history, and the server is not held for degraded.
  EXPECT_TRUE(eventually([&] {
    clock_.now += 10;
    return finds("bad", "HistoryDegraded");
  }));
  EXPECT_TRUE(eventually([&] { return store_.has_alert("HistoryDegraded") && store_.has_alert("NonFiniteGradient"); }));
  EXPECT_FALSE(finds("good", "HistoryDegraded"));
  good->send(good->report(21));
  EXPECT_TRUE(good->durable(21));
  EXPECT_FALSE(engine_->stats().history_degraded);
  EXPECT_LT(engine_->stats().lag_seconds, 1);

  store_.refuse_run("");
  EXPECT_TRUE(bad->durable(20));
  EXPECT_TRUE(eventually([&] {
    clock_.now += 10;
    return !finds("bad", "HistoryDegraded");
  }));
  EXPECT_TRUE(log_is_whole("bad"));
  EXPECT_EQ(store_.repeated_reports, 0);
}

TEST_F(RefusedRun, IsToldOnceForAllWhereNothingElseIsTaken) {
  const auto bad = client("bad");
  refuse("bad");
  bad->send(bad->report(2));
  EXPECT_TRUE(eventually([&] { return engine_->stats().history_degraded; }));
  const auto good = client("good");  // is taken
  EXPECT_FALSE(engine_->stats().history_degraded);
}

TEST_F(RefusedRun, ComesBackFromItsClientsAfterARestart) {
  std::unique_ptr<Engine> before;  // outlives its streams
  const auto good = client("good");
  const auto bad = client("bad");
  refuse("bad");
  for (std::uint64_t seq = 2; seq <= 6; ++seq) bad->send(bad->report(seq));
  good->send(good->report(2));
  EXPECT_TRUE(good->durable(2));
  engine_->stop();  // with its last try refused
  before = std::move(engine_);
  EXPECT_EQ(store_.reports(), 3U);
  store_.refuse_run("");
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  ASSERT_TRUE(bad->reconnect(*engine_, 6));
  EXPECT_EQ(bad->peer().hello_ack()->resume_after_seq(), 1U);
  for (std::uint64_t seq = 2; seq <= 6; ++seq) bad->send(bad->report(seq));
  EXPECT_TRUE(bad->durable(6));
  EXPECT_EQ(store_.repeated_reports, 0);
  EXPECT_TRUE(log_is_whole("bad"));
}

TEST_F(RefusedRun, WaitsWithTheOthersWhileTheDiskIsFull) {
  const auto good = client("good");
  const auto bad = client("bad");
  refuse("bad");
  bad->send(bad->report(2));
  good->send(good->report(2));
  EXPECT_TRUE(good->durable(2));
  store_.refuse = true;
  bad->send(bad->report(3));
  good->send(good->report(3));
  EXPECT_TRUE(eventually([&] { return engine_->stats().history_degraded; }));
  store_.refuse = false;
  EXPECT_TRUE(good->durable(3));
  EXPECT_EQ(bad->peer().durable(), 1U);
  store_.refuse_run("");
  EXPECT_TRUE(bad->durable(3));
  EXPECT_TRUE(log_is_whole("bad"));
}

// Its clients bring there what was refused here; taken here later, it would come over what is brought back from there.
TEST_F(RefusedRun, IsLetGoWhenItGoesOnElsewhere) {
  const auto bad = client("bad");
  refuse("bad");
  bad->send(bad->report(2));
  EXPECT_TRUE(eventually([&] { return engine_->stats().history_degraded; }));
  std::atomic<bool> left = false;
  engine_->hand_over("bad", "other", [&](const Engine::Leave& leave) {
    leave("other:7777");
    left = true;
  });
  EXPECT_TRUE(eventually([&] { return left.load(); }));
  ASSERT_TRUE(bad->peer().ended());
  EXPECT_EQ(bad->peer().ended()->cause(), v1::FAULT_CAUSE_MOVED);
  EXPECT_FALSE(engine_->stats().history_degraded);
  store_.refuse_run("");
  engine_->stop();  // with a last try of what is refused
  EXPECT_EQ(store_.reports(), 1U);
}

// They are large, and a store may refuse for days.
TEST_F(RefusedRun, NoSnapshotsPileUp) {
  const auto client = this->client("run");
  for (const bool alone : {false, true}) {
    std::size_t before = 0;
    {
      std::lock_guard lock(store_.mutex);
      before = store_.snapshot_rows;
    }
    const std::uint64_t seq = alone ? 3 : 2;
    alone ? refuse("run") : void(store_.refuse = true);
    client->send(client->report(seq));
    EXPECT_TRUE(eventually([&] { return engine_->stats().history_degraded; }));
    for (int i = 0; i < 10; ++i) {
      clock_.now += 10'000;  // it is told again that it lags, and a snapshot is due
      client->heartbeat();
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
    store_.refuse_run("");
    store_.refuse = false;
    EXPECT_TRUE(client->durable(seq));
    std::lock_guard lock(store_.mutex);
    EXPECT_LE(store_.snapshot_rows - before, 2U);
  }
}

// The store would give its older state back.
TEST_F(RefusedRun, StaysInMemory) {
  const auto bad = client("bad");
  refuse("bad");
  bad->send(bad->report(2));
  EXPECT_TRUE(eventually([&] { return engine_->stats().history_degraded; }));
  bad->goodbye();
  EXPECT_TRUE(eventually([&] {
    clock_.now += 100;
    const auto runs = engine_->overviews();
    return !runs.empty() && runs.front()->run().status() == v1::RUN_STATUS_FINISHED;
  }));
  bad->stream().closed();
  clock_.now += 700'000;
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // it is looked at once a second
  EXPECT_EQ(engine_->overviews().size(), 1U);
  store_.refuse_run("");
  EXPECT_TRUE(eventually([&] { return store_.reports() == 2; }));
  EXPECT_TRUE(eventually([&] {
    clock_.now += 700'000;
    return engine_->overviews().empty();
  }));
}

}  // namespace
}  // namespace scalewatch::engine::testing

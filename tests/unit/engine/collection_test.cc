// What the engine asks of its clients, and what it makes of what they lost, held back or kept for later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/fakes.h"

namespace scalewatch::engine::testing {
namespace {

using ::testing::HasSubstr;

class CollectionTest : public ::testing::Test {
 protected:
  CollectionTest() {
    options_.limits = default_limits();
    options_.commit_delay = std::chrono::milliseconds(1);
  }

  Engine& start() {
    engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
    return *engine_;
  }
  std::unique_ptr<TestClient> client(std::uint32_t rank, std::uint32_t world_size, std::uint8_t incarnation = 1) {
    auto out = std::make_unique<TestClient>(
        *engine_,
        TestClient::Options{.rank = rank, .world_size = world_size, .incarnation = incarnation, .tensors = 8, .parameters = 8});
    EXPECT_TRUE(out->join());
    out->send_table();
    return out;
  }
  v1::GetRunResponse overview() {
    const auto all = engine_->overviews();
    return all.empty() ? v1::GetRunResponse() : *all.front();
  }
  // Every 5 s a sign of life of these, so that only others fall silent.
  void pass(std::int64_t ms, std::initializer_list<TestClient*> alive) {
    for (; ms > 0; ms -= 5'000) {
      clock_.now += 5'000;
      for (TestClient* each : alive) each->heartbeat();
    }
  }
  static bool follows(TestClient& client) { return client.peer().directives().contains("leader"); }

  EngineOptions options_;
  MemoryStore store_;
  MemoryOutbox outbox_;
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(CollectionTest, TheLowestRankOfThoseThatHoldTheSameLeadsAndIsReplacedWhenItGoes) {
  start();
  auto two = client(2, 3);
  auto one = client(1, 3);
  ASSERT_TRUE(eventually([&] { return follows(*two); }));
  EXPECT_FALSE(follows(*one));
  auto zero = client(0, 3);
  ASSERT_TRUE(eventually([&] { return follows(*one) && follows(*two); }));
  EXPECT_FALSE(follows(*zero));
  const auto directive = two->peer().directives()["leader"];
  EXPECT_EQ(directive.report_every(), 4294967295U);
  EXPECT_EQ(directive.tensors_size(), 0);
  EXPECT_EQ(directive.expires_ms(), clock_.wall_ms() + 3'600'000);
  EXPECT_EQ(two->peer().directives()["leader-state"].report_every(), 50U);

  // A follower that comes back is told with the answer; the leader's short absence changes nothing.
  ASSERT_TRUE(two->reconnect(*engine_, 0));
  EXPECT_EQ(two->peer().hello_ack()->directives_size(), 2);
  EXPECT_EQ(two->peer().hello_ack()->server_time_ms(), clock_.wall_ms());
  zero->stream().closed();
  pass(20'000, {one.get(), two.get()});
  EXPECT_TRUE(follows(*one));
  // Beyond the limit of a lost rank the next one leads, until the lowest is back.
  pass(45'000, {one.get(), two.get()});
  ASSERT_TRUE(eventually([&] { return !follows(*one); }));
  EXPECT_TRUE(follows(*two));
  ASSERT_TRUE(zero->reconnect(*engine_, 0));
  ASSERT_TRUE(eventually([&] { return follows(*one); }));
  zero->goodbye();
  EXPECT_TRUE(eventually([&] { return !follows(*one) && follows(*two); }));
}

TEST_F(CollectionTest, DirectivesAreToldAnewBeforeTheyExpireAndNotWithout) {
  start();
  auto zero = client(0, 2);
  auto one = client(1, 2);
  ASSERT_TRUE(eventually([&] { return one->peer().directives().size() == 2; }));
  const int told = one->peer().directives_told();
  pass(20 * 60'000, {zero.get(), one.get()});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // several looks
  EXPECT_EQ(one->peer().directives_told(), told);
  pass(15 * 60'000, {zero.get(), one.get()});
  EXPECT_TRUE(eventually([&] { return one->peer().directives()["leader"].expires_ms() > clock_.wall_ms() + 3'000'000; }));
}

TEST_F(CollectionTest, AFindingTurnsTheMicroscopeOnAndOffAlsoOverARestart) {
  options_.thresholds.consecutive_skips_resolve = 3;
  options_.thresholds.event_resolve = 3;
  options_.thresholds.frequent_skips_window = 4;
  options_.thresholds.drift_window = 4;
  start();
  auto one = client(0, 1);
  std::uint64_t seq = 0;
  for (int i = 0; i < 20; ++i) one->send(one->report(++seq));
  EXPECT_TRUE(one->peer().directives().empty());
  for (int i = 0; i < 6; ++i) one->send(one->report(++seq, 3));
  const auto microscopes = [&] {
    std::vector<v1::Directive> out;
    for (const auto& [id, directive] : one->peer().directives()) {
      if (id.starts_with("microscope/")) out.push_back(directive);
    }
    return out;
  };
  ASSERT_TRUE(eventually([&] { return !microscopes().empty(); }));
  ASSERT_EQ(microscopes().size(), 1U) << "all findings blame the same tensor";
  const v1::Directive asked = microscopes().front();
  EXPECT_TRUE(asked.send_ring());
  EXPECT_EQ(asked.every(), 1U);
  EXPECT_GE(asked.until_attempt(), seq + 199);
  EXPECT_LE(asked.until_attempt(), seq + 251);
  ASSERT_EQ(asked.tensors_size(), 3) << "layer0 and two places on";
  EXPECT_EQ(asked.tensors(0), "layer0.weight");
  ASSERT_TRUE(one->durable(seq));

  // The same is asked by a server that was killed and comes back.
  MemoryStore after;
  store_.copy_to(after);
  {
    Engine second(options_, after, outbox_, clock_);
    ASSERT_TRUE(one->reconnect(second, seq));
    ASSERT_EQ(one->peer().hello_ack()->directives_size(), 1);
    EXPECT_EQ(one->peer().hello_ack()->directives(0).id(), asked.id());
    EXPECT_EQ(one->peer().hello_ack()->directives(0).until_attempt(), asked.until_attempt());
    // Healthy again: everything resolves, and the microscope goes.
    for (int i = 0; i < 400 && !microscopes().empty(); ++i) {
      one->send(one->report(++seq));
      ASSERT_TRUE(one->durable(seq));
      clock_.now += 100;
    }
    EXPECT_TRUE(eventually([&] { return microscopes().empty(); }));
    EXPECT_LT(seq, asked.until_attempt()) << "withdrawn, not run out";
    one->connect(*engine_);
  }
}

TEST_F(CollectionTest, EndsAreCountedAsTheIncarnationCounts) {
  start();
  auto zero = client(0, 2);
  auto old_one = client(1, 2, 1);
  std::uint64_t seq = 0;
  for (; seq < 100; ++seq) {
    zero->send(zero->report(seq + 1));
    old_one->send(old_one->report(seq + 1));
  }
  ASSERT_TRUE(old_one->durable(100));
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().attempts() == 100; }));
  auto one = client(1, 2, 2);  // counts from 1 again
  for (std::uint64_t i = 1; i <= 6; ++i) {
    zero->send(zero->report(100 + i, 2));
    one->send(one->report(i, 2));
  }
  const auto until = [](TestClient& of) -> std::uint64_t {
    for (const auto& [id, directive] : of.peer().directives()) {
      if (id.starts_with("microscope/")) return directive.until_attempt();
    }
    return 0;
  };
  ASSERT_TRUE(eventually([&] { return until(*zero) != 0 && until(*one) != 0; }));
  EXPECT_TRUE(eventually([&] { return until(*zero) == until(*one) + 100; }));
}

// Forked data-loader workers hold the sockets of trainers that are dead: nothing says so but silence.
TEST_F(CollectionTest, ASilentStreamCountsAsGoneAndBlocksNoRestart) {
  start();
  auto zero = client(0, 2);
  auto one = client(1, 2);
  zero->send(zero->report(1));
  one->send(one->report(1));
  ASSERT_TRUE(zero->durable(1));
  ASSERT_TRUE(one->durable(1));
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().ranks_connected() == 2; }));
  pass(15'000, {zero.get()});
  ASSERT_TRUE(eventually([&] { return overview().run().ranks_connected() == 1; }));
  EXPECT_FALSE(overview().ranks(1).connected());
  one->heartbeat();  // it was only held up
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().ranks_connected() == 2; }));
  clock_.now += 15'000;
  auto again = client(0, 2, 2);
  EXPECT_EQ(again->peer().hello_ack()->segment(), 2U) << "nobody of segment 1 is alive";
  EXPECT_FALSE(one->peer().ended()) << "a silent client may still speak";
}

TEST_F(CollectionTest, AStreamThatTheServerDoesNotReadIsNotSilent) {
  options_.stream_queue_bytes = 4096;
  start();
  auto zero = client(0, 1);
  ASSERT_TRUE(eventually([&] { return store_.commits > 0; }));
  store_.refuse = true;
  std::uint64_t seq = 0;
  while (seq < 1000 && zero->send(zero->report(++seq)) == Stream::Next::kContinue) {
  }
  ASSERT_LT(seq, 1000U);
  clock_.now += 120'000;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // several looks
  store_.refuse = false;
  ASSERT_TRUE(zero->durable(seq));
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().attempts() == seq; }));
  EXPECT_EQ(overview().run().ranks_connected(), 1U);
  EXPECT_FALSE(store_.has_alert("EndedWithoutGoodbye"));
}

TEST_F(CollectionTest, ARingOfOldAttemptsRefinesTheBlameAndIsNeitherLateNorWrong) {
  start();
  auto zero = client(0, 1);
  std::uint64_t seq = 0;
  for (int i = 0; i < 12; ++i) zero->send(zero->report(++seq));
  for (int i = 0; i < 5; ++i) zero->send(zero->report(++seq, 2));
  const std::uint64_t failed = seq;
  ASSERT_TRUE(zero->durable(seq));
  // The last attempts in full, one report each: attempts closed long ago, and the one that failed.
  for (std::uint64_t attempt = failed - 7; attempt <= failed; ++attempt) {
    v1::Report report = zero->report(++seq, 2);
    report.set_attempt(attempt);
    report.set_retrospective(true);
    report.clear_scalers();
    report.clear_loss();
    zero->send(report);
  }
  // Training goes on: seq runs ahead of the attempt from here.
  for (std::uint64_t attempt = failed + 1; attempt <= failed + 3; ++attempt) {
    v1::Report report = zero->report(++seq);
    report.set_attempt(attempt);
    zero->send(report);
  }
  ASSERT_TRUE(zero->durable(seq));
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().attempts() == failed + 3; }));
  EXPECT_EQ(overview().run().skipped(), 5U) << "told twice, counted once";
  EXPECT_EQ(overview().run().lost_reports(), 0U);
  EXPECT_TRUE(zero->peer().faults().empty());
  EXPECT_FALSE(zero->peer().ended());
  EXPECT_EQ(engine_->stats().reports_late, 0U);
  EXPECT_EQ(store_.reports(), seq);
  // Detail of an attempt far beyond the run is nobody's.
  v1::Report wild = zero->report(++seq);
  wild.set_attempt(1ULL << 40);
  wild.set_retrospective(true);
  zero->send(wild);
  ASSERT_TRUE(zero->durable(seq));
  EXPECT_EQ(zero->peer().faults().size(), 1U);
}

TEST_F(CollectionTest, LossesAreShownByCauseRankAndRangeAlsoAfterARestart) {
  start();
  auto zero = client(0, 2);
  auto one = client(1, 2);
  zero->send(zero->report(1));
  one->send(one->report(1));
  one->send_loss(2, 5);
  one->send_loss(6, 9, v1::LOSS_CAUSE_SPOOL_LIMIT);
  v1::Report thinned = zero->report(2);
  thinned.clear_blocks();
  thinned.set_statistics_lost(v1::LOSS_CAUSE_QUEUE_FULL);
  thinned.mutable_client()->set_client_thread_ns(7'000);
  thinned.mutable_client()->set_spooled_bytes(11);
  zero->send(thinned);
  ASSERT_TRUE(zero->durable(2));
  ASSERT_TRUE(one->durable(9));
  const auto check = [](const v1::GetRunResponse& run) {
    ASSERT_EQ(run.ranks_size(), 2);
    EXPECT_EQ(run.run().lost_reports(), 8U);
    EXPECT_EQ(run.run().thinned_reports(), 1U);
    EXPECT_EQ(run.ranks(0).client_thread_ns(), 7'000U);
    EXPECT_EQ(run.ranks(0).spooled_bytes(), 11U);
    ASSERT_EQ(run.ranks(0).losses_size(), 1);
    EXPECT_EQ(run.ranks(0).losses(0).cause(), "queue_full");
    EXPECT_EQ(run.ranks(0).losses(0).thinned(), 1U);
    EXPECT_EQ(run.ranks(0).losses(0).first_attempt(), 2U);
    ASSERT_EQ(run.ranks(1).losses_size(), 2);
    EXPECT_EQ(run.ranks(1).losses(0).cause(), "buffer_full");
    EXPECT_EQ(run.ranks(1).losses(0).first_seq(), 2U);
    EXPECT_EQ(run.ranks(1).losses(0).last_seq(), 5U);
    EXPECT_EQ(run.ranks(1).losses(1).cause(), "spool_limit");
  };
  clock_.now += 100;
  ASSERT_TRUE(eventually([&] { return overview().run().thinned_reports() == 1; }));
  check(overview());
  EXPECT_EQ(engine_->stats().reports_thinned, 1U);
  EXPECT_TRUE(store_.has_alert("StatsDropped"));
  engine_->stop();
  zero.reset();
  one.reset();
  start();
  ASSERT_TRUE(eventually([&] { return overview().run().thinned_reports() == 1; }));
  check(overview());
}

TEST_F(CollectionTest, ASnapshotOfAnOlderVersionIsLeftForTheLog) {
  start();
  auto zero = client(0, 1);
  for (std::uint64_t seq = 1; seq <= 5; ++seq) zero->send(zero->report(seq));
  ASSERT_TRUE(zero->durable(5));
  engine_->stop();
  zero.reset();
  ASSERT_EQ(store_.snapshots.size(), 1U);
  std::string& state = store_.snapshots.begin()->second.state;
  const auto at = state.find("version");  // CBOR: the key, then a small number as one byte
  ASSERT_NE(at, std::string::npos);
  state[at + 7] = 1;
  start();
  zero = client(0, 1);
  EXPECT_EQ(zero->peer().hello_ack()->resume_after_seq(), 5U);
  ASSERT_TRUE(eventually([&] { return overview().run().attempts() == 5; }));
}

}  // namespace
}  // namespace scalewatch::engine::testing

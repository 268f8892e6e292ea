// Starting from a store in which something cannot be read: it costs what it held and no more, is told, and the run goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "server/engine/were_here.h"
#include "tests/unit/engine/fakes.h"

namespace scalewatch::engine::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kReports = 60;

class Recovery : public ::testing::Test {
 protected:
  Recovery() {
    options_.limits = default_limits();
    options_.commit_delay = std::chrono::milliseconds(1);
    options_.snapshot_every = std::chrono::hours(1);
  }

  // A run of which the log tells everything; with `snapshot` there is one of its middle, too.
  void make(bool snapshot) {
    MemoryStore first_store;
    Engine first(options_, first_store, outbox_, clock_);
    TestClient client(first, {});
    ASSERT_TRUE(client.join());
    client.send_table();
    for (std::uint64_t seq = 1; seq <= kReports / 2; ++seq) client.send(client.report(seq));
    ASSERT_TRUE(client.durable(kReports / 2));
    if (snapshot) {
      clock_.now += 3'700'000;
      client.heartbeat();
      ASSERT_TRUE(eventually([&] { return first_store.newest_snapshot(uid(first_store)).has_value(); }));
    }
    for (std::uint64_t seq = kReports / 2 + 1; seq <= kReports; ++seq) client.send(client.report(seq));
    ASSERT_TRUE(client.durable(kReports));
    clock_.now += 200;
    ASSERT_TRUE(eventually([&] { return first_store.find_run("run")->status == v1::RUN_STATUS_RUNNING; }));
    first_store.copy_to(store_);
    uid_ = uid(store_);
  }
  static std::string uid(MemoryStore& store) { return store.find_run("run")->run_uid; }

  // The server starts, takes the client back and what it sends.
  void goes_on(std::uint64_t told_durable = kReports) {
    const std::uint64_t to = told_durable + 20;
    engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
    TestClient client(*engine_, {});
    ASSERT_TRUE(client.join(told_durable, told_durable));
    const auto ack = *client.peer().hello_ack();
    EXPECT_GE(ack.resume_after_seq(), told_durable);
    EXPECT_EQ(ack.run_uid(), uid_);
    client.send_table();
    for (std::uint64_t seq = ack.resume_after_seq() + 1; seq <= to; ++seq) client.send(client.report(seq));
    ASSERT_TRUE(client.durable(to)) << (client.peer().ended() ? client.peer().ended()->message() : "");
    clock_.now += 200;
    EXPECT_TRUE(eventually([&] { return overview().run().last_step() == static_cast<std::int64_t>(to); }));
  }
  v1::GetRunResponse overview() {
    for (const auto& run : engine_->overviews()) {
      if (run->run().name() == "run") return *run;
    }
    return {};
  }
  // Reports that the run says its store lost.
  std::uint64_t lost() {
    std::uint64_t reports = 0;
    const v1::GetRunResponse run = overview();
    for (const auto& rank : run.ranks()) {
      for (const auto& loss : rank.losses()) reports += loss.cause() == "store" ? loss.reports() : 0;
    }
    return reports;
  }
  void each_input(const std::function<void(std::string&)>& change) {
    for (auto& [pos, entry] : store_.log[uid_]) {
      if (entry.input) change(entry.input->payload);
    }
  }
  std::string& delta() { return store_.table_rows.begin()->second.begin()->second.delta; }
  std::string& hello() { return store_.incarnation_rows.begin()->second.hello; }

  EngineOptions options_;
  MemoryStore store_;
  MemoryOutbox outbox_;
  ManualClock clock_;
  std::string uid_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(Recovery, WhatAClientWasToldAndTheStoreHoldsNoMoreIsToldAsLost) {
  make(false);
  auto& log = store_.log[uid_];
  log.erase(std::prev(log.end(), 12), log.end());  // of a write-ahead log that is gone
  std::uint64_t held = 0;
  for (const auto& [pos, entry] : log) {
    if (entry.report) held = std::max(held, entry.report->seq);
  }
  ASSERT_LT(held, kReports);
  std::erase_if(store_.seqs, [&](const auto& key) { return key.second > held; });
  goes_on();
  EXPECT_EQ(lost(), kReports - held);
  EXPECT_TRUE(store_.has_alert("StatsDropped"));
  engine_.reset();
  goes_on(kReports + 20);
  EXPECT_EQ(lost(), kReports - held);  // once
}

TEST_F(Recovery, ARunThatIsCalledAsAnothersRunUidIsReadBack) {
  make(false);
  store_.runs["run"] = {.run_uid = "run", .name = "other", .status = v1::RUN_STATUS_FINISHED, .overview = {}};
  store_.runs[uid_].status = v1::RUN_STATUS_FINISHED;  // or it is read back without being looked for
  goes_on();
}

TEST_F(Recovery, ARunThatIsGoneBeginsAnewAndTellsWhatWasInIt) {
  make(false);
  MemoryStore empty;
  Engine engine(options_, empty, outbox_, clock_);
  TestClient client(engine, {});
  ASSERT_TRUE(client.join(kReports, kReports));
  EXPECT_EQ(client.peer().hello_ack()->resume_after_seq(), kReports);
  client.send_table();
  client.send(client.report(kReports + 1));
  ASSERT_TRUE(client.durable(kReports + 1));
  EXPECT_TRUE(empty.has_alert("StatsDropped"));
}

TEST_F(Recovery, AHelloThatSaysMoreThanItGaveOutIsRefused) {
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  TestClient client(*engine_, {});
  EXPECT_FALSE(client.join(5, 6));
  EXPECT_EQ(client.peer().ended()->cause(), v1::FAULT_CAUSE_BAD_HELLO);
  // Nor can anybody have given out so many.
  client.connect(*engine_);
  EXPECT_FALSE(client.join(1ULL << 41, 1ULL << 41));
  EXPECT_EQ(client.peer().ended()->cause(), v1::FAULT_CAUSE_BAD_HELLO);
  EXPECT_EQ(engine_->stats().reports_lost, 0U);
}

// Zombies of any but the oldest starts are still known.
TEST(WereHereTest, TheOldestAreForgottenFirst) {
  const auto start = [](int n) {
    Incarnation out{};
    out[0] = static_cast<std::uint8_t>(n);
    return out;
  };
  WereHere were_here(3);
  for (int n = 1; n <= 4; ++n) were_here.add(0, start(n));
  were_here.add(0, start(4));  // again: nothing is forgotten for it
  EXPECT_FALSE(were_here.contains(0, start(1)));
  for (int n = 2; n <= 4; ++n) EXPECT_TRUE(were_here.contains(0, start(n))) << n;
  EXPECT_FALSE(were_here.contains(1, start(2)));
}

TEST_F(Recovery, AHelloThatCannotBeReadComesWithTheNextConnection) {
  for (const std::string& broken : {std::string(), std::string("\xff\xff"), v1::Hello().SerializeAsString()}) {
    store_.clear();
    make(false);
    const std::string whole = hello();
    hello() = broken;
    goes_on();
    EXPECT_EQ(lost(), 0U);
    EXPECT_TRUE(eventually([&] {
      std::lock_guard lock(store_.mutex);
      v1::Hello now;
      return now.ParseFromString(hello()) && now.run() == "run";
    }));
    engine_.reset();
  }
}

TEST_F(Recovery, ATableThatCannotBeReadIsAskedForAgain) {
  for (const std::string& broken : {std::string(), std::string("\xff\xff"), std::string(500, 'x')}) {
    store_.clear();
    make(false);
    delta() = broken;
    goes_on();
    EXPECT_EQ(lost(), 0U);
    engine_.reset();
  }
}

TEST_F(Recovery, AReportThatCannotBeReadIsTheOnlyOneLost) {
  for (const bool snapshot : {false, true}) {
    store_.clear();
    make(snapshot);
    std::uint64_t broken = 0;
    for (auto& [pos, entry] : store_.log[uid_]) {
      if (!entry.report || entry.report->seq % 25 != 0) continue;
      entry.report->payload = entry.report->seq == 25 ? "" : "\xff\xff";
      broken += snapshot && entry.report->seq <= kReports / 2 ? 0 : 1;  // the snapshot has taken it in
    }
    goes_on();
    EXPECT_EQ(lost(), broken);
    EXPECT_TRUE(store_.has_alert("StatsDropped"));
    engine_.reset();
    goes_on(kReports + 20);
    EXPECT_EQ(lost(), broken);  // and not once more
    engine_.reset();
  }
}

TEST_F(Recovery, AnyInputThatCannotBeReadIsLeftOut) {
  for (const char* kind : {"segment_opened", "rank_joined", "attempt_closed"}) {
    store_.clear();
    make(false);
    int broken = 0;
    each_input([&](std::string& payload) {
      if (payload.find(kind) == std::string::npos) return;
      payload = broken % 2 == 0 ? payload.substr(0, payload.size() / 2) : "null";
      ++broken;
    });
    ASSERT_GT(broken, 0) << kind;
    goes_on();
    EXPECT_EQ(overview().run().segment(), 1U) << kind;
    EXPECT_EQ(overview().ranks_size(), 1) << kind;
    engine_.reset();
  }
}

TEST_F(Recovery, ADigitThatChangedInAnInputIsNoticed) {
  make(false);
  each_input([](std::string& payload) {
    if (const auto at = payload.find("\"attempt\":7,"); at != std::string::npos) payload[at + 10] = '9';
  });
  goes_on();
  EXPECT_EQ(overview().run().attempts(), kReports + 20);
}

TEST_F(Recovery, ASnapshotThatCannotBeReadCostsTheTimeToReadTheLog) {
  std::mt19937 random(3);
  for (int round = 0; round < 6; ++round) {
    store_.clear();
    make(true);
    std::string& state = store_.snapshots[uid_].state;
    if (round < 4) {
      state.resize(state.size() * static_cast<std::size_t>(round) / 4);
    } else {
      for (char& byte : state) byte = static_cast<char>(random());
    }
    goes_on();
    EXPECT_EQ(overview().run().attempts(), kReports + 20);
    engine_.reset();
  }
}

TEST_F(Recovery, ALogThatCannotBeReadCostsTheSegmentsState) {
  make(true);
  store_.log_is_broken = true;
  store_.snapshots.clear();
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  store_.log_is_broken = false;
  engine_.reset();
  EXPECT_EQ(outbox_.let_go.at("run"), "what was known of the run can't be read any more") << "its alerts must not stay open";
  goes_on();
  EXPECT_TRUE(store_.has_alert("StatsDropped"));
}

// Of a run that vanished: it was forgotten, or the server began anew. A day later its alerts resolve, once, and say why.
TEST_F(Recovery, TheAlertsOfARunThatIsGoneResolve) {
  make(false);
  constexpr std::int64_t kHour = 3'600'000;
  const auto resolved = [&] { return store_.has_key("EndedWithoutGoodbye", "/resolved"); };
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  clock_.now += 70'000;
  ASSERT_TRUE(eventually([&] { return store_.find_run("run")->status == v1::RUN_STATUS_LOST; }));
  ASSERT_TRUE(eventually([&] { return store_.has_alert("EndedWithoutGoodbye"); }));
  clock_.now += 700'000;
  ASSERT_TRUE(eventually([&] { return !engine_->holds("run"); })) << "it has left memory";
  clock_.now += 20 * kHour;
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // it has looked
  EXPECT_FALSE(engine_->holds("run"));
  EXPECT_FALSE(resolved());
  clock_.now += 4 * kHour;
  ASSERT_TRUE(eventually(resolved));
  {
    std::lock_guard lock(outbox_.mutex);
    ASSERT_EQ(outbox_.reasons.size(), 1U);
    EXPECT_EQ(outbox_.reasons.begin()->second, "the run is gone: nothing was heard of it for 24 h");
  }
  ASSERT_TRUE(eventually([&] { return store_.find_run("run")->worst_open == 0; }));
  EXPECT_EQ(store_.find_run("run")->status, v1::RUN_STATUS_LOST);
  clock_.now += 700'000;
  ASSERT_TRUE(eventually([&] { return !engine_->holds("run"); }));
  clock_.now += 61'000;
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_FALSE(engine_->holds("run")) << "once";
  // A restart that folds the log finds the same.
  store_.snapshots.clear();
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  engine_->adopt("run");
  ASSERT_TRUE(eventually([&] { return overview().has_run(); }));
  EXPECT_EQ(overview().run().open_findings(), 0U);
}

// The server ended before all ranks of a job had joined: those wait up to 30 s before they try again.
TEST_F(Recovery, RanksThatHadNotJoinedAreWaitedFor) {
  const auto closed = [&] {
    std::lock_guard lock(store_.mutex);
    std::vector<std::string> out;
    for (const auto& [pos, entry] : store_.log[uid_]) {
      if (entry.input && entry.input->payload.find("attempt_closed") != std::string::npos) out.push_back(entry.input->payload);
    }
    return out;
  };
  constexpr std::uint64_t kBefore = 3;
  {
    MemoryStore first_store;
    Engine first(options_, first_store, outbox_, clock_);
    TestClient early(first, {.world_size = 2});
    ASSERT_TRUE(early.join());
    early.send_table();
    for (std::uint64_t seq = 1; seq <= kBefore; ++seq) early.send(early.report(seq));
    ASSERT_TRUE(early.durable(kBefore));
    clock_.now += 200;
    ASSERT_TRUE(eventually([&] { return first_store.find_run("run")->status == v1::RUN_STATUS_RUNNING; }));
    first_store.copy_to(store_);
    uid_ = uid(store_);
  }
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  TestClient early(*engine_, {.world_size = 2});
  ASSERT_TRUE(early.join(kBefore));
  early.send_table();
  clock_.now += 20'000;
  early.send(early.report(kBefore + 1));
  ASSERT_TRUE(early.durable(kBefore + 1));
  EXPECT_THAT(closed(), IsEmpty());
  TestClient late(*engine_, {.rank = 1, .world_size = 2, .incarnation = 2});
  ASSERT_TRUE(late.join(kBefore + 1));
  late.send_table();
  for (std::uint64_t seq = 1; seq <= kBefore + 1; ++seq) late.send(late.report(seq));
  ASSERT_TRUE(late.durable(kBefore + 1));
  EXPECT_TRUE(eventually([&] { return closed().size() == kBefore + 1; }));
  EXPECT_THAT(closed(), Each(HasSubstr("\"missing\":[]")));
}

// The server that they had is gone with the run: they had attempts before they came, and pause up to 30 s between tries.
TEST_F(Recovery, RanksOfARunThatBeginsAnewAreWaitedFor) {
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  TestClient early(*engine_, {.world_size = 2});
  ASSERT_TRUE(early.join(3));
  const auto closed = [&] {
    std::lock_guard lock(store_.mutex);
    const auto& log = store_.log[uid_];
    return std::count_if(log.begin(), log.end(), [](const auto& each) {
      return each.second.input && each.second.input->payload.find("attempt_closed") != std::string::npos;
    });
  };
  early.send_table();
  for (std::uint64_t seq = 1; seq <= 20; ++seq) early.send(early.report(seq));
  ASSERT_TRUE(early.durable(20));
  uid_ = uid(store_);
  clock_.now += 20'000;
  early.send(early.report(21));
  ASSERT_TRUE(early.durable(21));
  EXPECT_EQ(closed(), 0);
  TestClient late(*engine_, {.rank = 1, .world_size = 2, .incarnation = 2});
  ASSERT_TRUE(late.join(21));
  late.send_table();
  for (std::uint64_t seq = 1; seq <= 21; ++seq) late.send(late.report(seq));
  ASSERT_TRUE(late.durable(21));
  EXPECT_TRUE(eventually([&] { return closed() == 21; }));
}

// What alerting is told of a run that was read back: at once what must have an alert, and what must have none only when nothing
// of before can come any more.
TEST_F(Recovery, AlertsAreHeldAgainstFindingsWhenNothingIsOnItsWayAnyMore) {
  make(false);
  const auto reconciled = [&] {
    std::lock_guard lock(outbox_.mutex);
    return outbox_.reconciled["run"];
  };
  ASSERT_TRUE(reconciled().empty()) << "it began here";
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  ASSERT_EQ(reconciled().size(), 1U);
  EXPECT_FALSE(reconciled().front().settled);
  TestClient client(*engine_, {});
  ASSERT_TRUE(client.join(kReports + 3, kReports));  // it has kept three reports
  client.send_table();
  client.send(client.report(kReports + 1));
  client.send(client.report(kReports + 2));
  ASSERT_TRUE(client.durable(kReports + 2));
  std::this_thread::sleep_for(std::chrono::milliseconds(250));  // some ticks
  EXPECT_EQ(reconciled().size(), 1U);
  client.send(client.report(kReports + 3));
  ASSERT_TRUE(eventually([&] { return reconciled().size() == 2; }));
  EXPECT_TRUE(reconciled().back().settled);
  // And once.
  client.send(client.report(kReports + 4));
  ASSERT_TRUE(client.durable(kReports + 4));
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_EQ(reconciled().size(), 2U);
}

TEST_F(Recovery, AlertsAreHeldAgainstFindingsThoughNobodyComesBack) {
  make(false);
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  const auto settled = [&] {
    std::lock_guard lock(outbox_.mutex);
    return outbox_.reconciled["run"].back().settled;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_FALSE(settled());
  clock_.now += 36'000;  // clients that are there connect again sooner
  EXPECT_TRUE(eventually(settled));
}

TEST_F(Recovery, WhatIsFoundOpenIsWhatAlertsAreHeldAgainst) {
  MemoryStore first_store;
  Engine first(options_, first_store, outbox_, clock_);
  TestClient client(first, {});
  ASSERT_TRUE(client.join());
  client.send_table();
  for (std::uint64_t seq = 1; seq <= 60; ++seq) client.send(client.report(seq, seq > 20 ? 3 : 0));
  ASSERT_TRUE(client.durable(60));
  first_store.copy_to(store_);
  std::set<std::string> open;
  for (const auto& [id, row] : store_.alerts) {
    if (!store_.outbox.contains(id + "/resolved")) open.insert(row.rule);
  }
  ASSERT_FALSE(open.empty());
  engine_ = std::make_unique<Engine>(options_, store_, outbox_, clock_);
  engine_->adopt("run");
  std::lock_guard lock(outbox_.mutex);
  ASSERT_FALSE(outbox_.reconciled["run"].empty());
  EXPECT_EQ(outbox_.reconciled["run"].front().open, open);
}

}  // namespace
}  // namespace scalewatch::engine::testing

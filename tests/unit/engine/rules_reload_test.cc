// Rules that change while a run goes on: from where, with what end, and that a restart comes to the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/domain/run_state.h"
#include "tests/unit/engine/fakes.h"

namespace scalewatch::engine::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::uint64_t kFirstReload = 30;   // after this report
constexpr std::uint64_t kSecondReload = 60;  // and this one
constexpr std::uint64_t kReports = 90;

// Windows of the rank's own tensors and of the run get narrower; then what both found is switched off.
domain::Thresholds rules_after(std::uint64_t seq) {
  domain::Thresholds rules;
  if (seq < kFirstReload) return rules;
  rules.consecutive_skips = 3;
  rules.dominant_gradient_share = 0.05;
  rules.dominant_gradient_samples = 6;
  if (seq >= kSecondReload) rules.off = {"DominantGradient", "ConsecutiveSkips"};
  return rules;
}

class RulesReload : public ::testing::Test {
 protected:
  RulesReload() {
    options_.limits = default_limits();
    options_.commit_delay = std::chrono::milliseconds(1);
  }
  static TestClient::Options client() { return {.tensors = 16}; }

  std::size_t logged(MemoryStore& store) {
    std::lock_guard lock(store.mutex);
    std::size_t count = 0;
    for (const auto& [run, entries] : store.log) {
      for (const auto& [pos, entry] : entries) {
        const bool is_it = entry.input && entry.input->payload.find("rules_changed") != std::string::npos;
        count += is_it && entry.input->payload.find("\"rank\"") == std::string::npos ? 1 : 0;
      }
    }
    return count;
  }
  // Reports up to `to`, with reloads where they belong.
  void go_on(Engine& engine, MemoryStore& store, TestClient& client, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t seq = from; seq <= to; ++seq) {
      client.send(client.report(seq, seq % 20 > 15 ? 2 : 0));  // four skips in a row: not enough for the rules as built in
      if (seq != kFirstReload && seq != kSecondReload) continue;
      ASSERT_TRUE(client.durable(seq));
      const std::size_t before = logged(store);
      engine.change_rules([seq](const std::string& /*run*/) { return rules_after(seq); });
      ASSERT_TRUE(eventually([&] { return logged(store) > before; }));
    }
    ASSERT_TRUE(client.durable(to));
  }
  static bool is_running(MemoryStore& store) { return store.find_run("run")->status == v1::RUN_STATUS_RUNNING; }
  static bool snapshot_is_newest(MemoryStore& store) {
    const std::string uid = store.find_run("run")->run_uid;
    const auto snapshot = store.newest_snapshot(uid);
    std::lock_guard lock(store.mutex);
    return snapshot && snapshot->pos == store.log[uid].rbegin()->first;
  }
  static std::set<std::string> keys(MemoryStore& store) {
    std::lock_guard lock(store.mutex);
    std::set<std::string> out;
    for (const auto& key : store.outbox) out.insert(key.substr(key.find('/')));
    return out;
  }
  std::set<std::string> uninterrupted() {
    MemoryStore store;
    Engine engine(options_, store, outbox_, clock_);
    TestClient trainer(engine, client());
    EXPECT_TRUE(trainer.join());
    trainer.send_table();
    go_on(engine, store, trainer, 1, kReports);
    engine.stop();
    return keys(store);
  }

  EngineOptions options_;
  MemoryOutbox outbox_;
  ManualClock clock_;
};

TEST_F(RulesReload, WhatIsNewHoldsFromThenOnAndWhatIsOffResolves) {
  const auto found = uninterrupted();
  EXPECT_THAT(found, Contains("/ConsecutiveSkips/default/1.36/firing"));
  EXPECT_THAT(found, Contains("/ConsecutiveSkips/default/1.36/resolved"));
  EXPECT_THAT(found, ::testing::Not(Contains("/ConsecutiveSkips/default/1.16/firing")));
  EXPECT_THAT(found, ::testing::Not(Contains("/ConsecutiveSkips/default/1.76/firing")));
  EXPECT_THAT(found, Contains("/DominantGradient/default/1.31/firing"));
  EXPECT_THAT(found, Contains("/DominantGradient/default/1.31/resolved"));
}

TEST_F(RulesReload, ARestartAnywhereEndsInTheSameFindings) {
  const auto expected = uninterrupted();
  for (const std::uint64_t cut : {kFirstReload - 1, kFirstReload, kFirstReload + 1, kFirstReload + 2, kFirstReload + 3,
                                  std::uint64_t{45}, kSecondReload, kSecondReload + 1, std::uint64_t{80}}) {
    for (const int snapshot_every : {1, 10'000}) {
      options_.snapshot_every = std::chrono::milliseconds(snapshot_every);
      MemoryStore before;
      MemoryStore after;
      {
        Engine first(options_, before, outbox_, clock_);
        TestClient trainer(first, client());
        ASSERT_TRUE(trainer.join());
        trainer.send_table();
        // The report after a snapshot brings the rank's own state for the next one: some cuts have that of before a reload.
        for (const auto& [from, to] : {std::pair{std::uint64_t{1}, cut - 2}, std::pair{cut - 1, cut}}) {
          go_on(first, before, trainer, from, to);
          clock_.now += 200;
          ASSERT_TRUE(eventually([&] { return snapshot_every == 1 ? snapshot_is_newest(before) : is_running(before); }));
        }
        before.copy_to(after);
      }
      EngineOptions options = options_;
      options.thresholds = rules_after(cut);  // the file that was reloaded
      Engine second(options, after, outbox_, clock_);
      TestClient trainer(second, client());
      ASSERT_TRUE(trainer.join());
      const std::uint64_t resume = trainer.peer().hello_ack()->resume_after_seq();
      EXPECT_EQ(resume, cut);
      if (trainer.peer().hello_ack()->need_table()) trainer.send_table();
      go_on(second, after, trainer, resume + 1, kReports);
      second.stop();
      EXPECT_EQ(keys(after), expected) << "cut at " << cut << ", snapshots every " << snapshot_every << " ms";
      EXPECT_EQ(logged(after), 2U) << "a restart with the rules that hold is no change";
    }
  }
}

TEST_F(RulesReload, AFileThatChangedWhileTheServerWasDownIsAChangeToo) {
  MemoryStore store;
  {
    Engine engine(options_, store, outbox_, clock_);
    TestClient trainer(engine, client());
    ASSERT_TRUE(trainer.join());
    trainer.send_table();
    go_on(engine, store, trainer, 1, 20);
    engine.stop();
  }
  options_.thresholds.consecutive_skips = 3;
  Engine engine(options_, store, outbox_, clock_);
  TestClient trainer(engine, client());
  ASSERT_TRUE(trainer.join());
  trainer.send_table();
  for (std::uint64_t seq = 21; seq <= 40; ++seq) trainer.send(trainer.report(seq, seq % 20 > 15 ? 2 : 0));
  ASSERT_TRUE(trainer.durable(40));
  EXPECT_EQ(logged(store), 1U);
  EXPECT_THAT(keys(store), Contains("/ConsecutiveSkips/default/1.36/firing"));
}

TEST(RulesChanged, AResolveOfARuleThatIsOffSaysSo) {
  domain::RunState state;
  domain::ServerLag lag{60'000, true, "disk full", 5};
  domain::RankJoined joined;
  state.fold(domain::SegmentOpened{1, 1});
  state.fold(joined);
  const auto opened = state.fold(lag);
  ASSERT_FALSE(opened.empty());
  domain::Thresholds rules;
  rules.off = {opened.front().finding.rule};
  const auto events = state.fold(domain::RulesChanged{std::make_shared<domain::Thresholds>(rules), {}, 9});
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events.front().change, domain::FindingEvent::Change::kResolved);
  EXPECT_EQ(events.front().finding.last_time, 9);
  EXPECT_THAT(events.front().reason, HasSubstr("switched off"));
}

}  // namespace
}  // namespace scalewatch::engine::testing

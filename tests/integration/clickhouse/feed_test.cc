// Batches as they follow each other into ClickHouse.
#include <algorithm>
#include <chrono>
#include <thread>

#include "server/history/clickhouse/log_cover.h"
#include "server/history/clickhouse/shared.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

struct Mark {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t records = 0;
  auto operator<=>(const Mark&) const = default;
};

class Feed : public ClickHouseTest {
 protected:
  // What `batches` says of the run's log, in order.
  std::vector<Mark> marks() {
    const std::string answer =
        query("SELECT DISTINCT from_pos, to_pos, records FROM batches WHERE rank = " + std::to_string(kNoRank) +
              " ORDER BY from_pos, to_pos FORMAT RowBinary");
    std::vector<Mark> all;
    for (RowReader rows(answer); !rows.done();) {
      Mark& mark = all.emplace_back();
      mark.from = rows.u64();
      mark.to = rows.u64();
      mark.records = rows.u64();
    }
    return all;
  }
};

// A batch's worth need not wait for its second, which is an hour here.
TEST_F(Feed, WhatFillsABatchLeavesAtOnce) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  options_.every = std::chrono::hours(1);
  Feeder feeder(options_, {"here", false}, *store, clock_);
  const auto sent_within = [&](std::uint64_t batches, std::chrono::milliseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    while (feeder.stats().batches < batches && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return feeder.stats().batches >= batches;
  };
  auto commits = history::one_rank(3, 64);
  ASSERT_GT(commits.size(), 4U);
  store->commit(commits[0]);
  store->commit(commits[1]);
  feeder.start({});
  ASSERT_TRUE(sent_within(1, std::chrono::minutes(1))) << feeder.stats().error;  // of the first round
  store->commit(commits[2]);
  EXPECT_FALSE(sent_within(2, std::chrono::milliseconds(500)));
  // An unknown field of a megabyte in each report: its tag, its length.
  const std::string large = std::string("\xc2\x3e\x80\x80\x40") + std::string(std::size_t{1} << 20, 'x');
  for (std::size_t i = 3; i < commits.size(); ++i) {
    for (auto& row : commits[i].reports) row.payload += large;
    store->commit(commits[i]);
  }
  EXPECT_TRUE(sent_within(2, std::chrono::minutes(1))) << feeder.stats().error;
}

TEST_F(Feed, BatchesFollowEachOtherWithoutGapsOrOverlaps) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : history::one_rank(9, 300)) store->commit(batch);
  // Each but the last is full: the next one is read while one is sent.
  constexpr std::uint64_t kRecords = 3000;
  feed(*store, {"u1"}, kRecords);
  const auto all = marks();
  ASSERT_GE(all.size(), 8U);
  EXPECT_EQ(all.front().from, 1U);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    EXPECT_EQ(all[i].to + 1, all[i + 1].from);
    EXPECT_GE(all[i].records, kRecords);
    EXPECT_LT(all[i].records, kRecords + history::kTensors);
  }
  EXPECT_EQ(query("SELECT sum(records) FROM (SELECT DISTINCT from_pos, to_pos, records FROM batches WHERE rank = " +
                  std::to_string(kNoRank) + ")"),
            query("SELECT count() FROM (SELECT DISTINCT seq, id FROM records)"));

  // A crash while the second one was on its way: it is sent again as it was, and by itself; then comes the rest.
  store->write(history::WriteClass::kCommit, [&](history::Connection& writer) {
    const std::string sql =
        "UPDATE feed_runs SET pos = " + std::to_string(all[0].to) + ", intent = " + std::to_string(all[1].to);
    writer.execute(sql.c_str());
  });
  feed(*store, {"u1"});
  auto after = marks();
  ASSERT_EQ(after.size(), all.size() + 1);
  const auto rest = std::find_if(after.begin(), after.end(),
                                 [&](const Mark& mark) { return mark.from == all[2].from && mark.to == all.back().to; });
  ASSERT_NE(rest, after.end());
  after.erase(rest);
  EXPECT_EQ(after, all);
}

// As where a server ends before it has sent them: its log is there, and tells nobody that the run is over.
TEST_F(Feed, RowsAndAlertsThatWereNotSentBeforeARestartAreSentAfterIt) {
  TempDir dir;
  auto store = history::SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : history::one_rank(9, 20)) store->commit(batch);
  engine::CommitBatch batch;
  batch.runs = {history::run_row("u1", "r1")};
  batch.alerts = {{"u1/a", "u1", "Rule", 3, v1::ALERT_STATE_FIRING, 10, 20, "fires"}};
  store->commit(batch);
  feed(*store, {"u1"});
  const auto restart = [&] {
    store.reset();
    store = history::SqliteStore::open(dir.path, by_hand());
  };
  const auto there = [&] {
    return query("SELECT status FROM runs ORDER BY version DESC LIMIT 1") +
           query("SELECT state FROM alerts ORDER BY changed_ms DESC LIMIT 1");
  };
  const auto newest = [&] { return query("SELECT max(version) FROM runs"); };
  EXPECT_EQ(there(), "1\n2\n");

  restart();
  batch.runs[0].status = v1::RUN_STATUS_FINISHED;
  batch.alerts.clear();
  store->commit(batch);
  feed(*store, {});
  EXPECT_EQ(there(), "2\n2\n");
  restart();
  batch.runs.clear();
  batch.alerts = {{"u1/a", "u1", "Rule", 3, v1::ALERT_STATE_RESOLVED, 10, 30, "is over"}};
  store->commit(batch);
  feed(*store, {});
  EXPECT_EQ(there(), "2\n5\n");
  const std::string sent = newest();
  feed(*store, {});
  EXPECT_EQ(newest(), sent) << "all of it was there";
}

// Nobody else would tell there that it ended.
TEST_F(Feed, ARunStaysUntilItsRowIsThereAsItIs) {
  TempDir dir;
  history::StoreOptions options = by_hand();
  options.retention.max_age = std::chrono::hours(1);
  options.retention.every = std::chrono::milliseconds(0);
  auto store = history::SqliteStore::open(dir.path, options);
  for (const auto& batch : history::one_rank(9, 20)) store->commit(batch);
  feed(*store, {"u1"});
  Options away = options_;
  away.hosts = "http://127.0.0.1:1";
  const auto is_kept = [&] {
    constexpr std::int64_t kDay = 86'400'000;
    while (store->retention().step(1000 * kDay)) {
    }
    return store->find_run("u1").has_value();
  };
  {
    Feeder feeder(away, {"here", false}, *store, clock_);
    engine::CommitBatch batch;
    batch.runs = {history::run_row("u1", "alpha")};
    batch.runs[0].status = v1::RUN_STATUS_FINISHED;
    store->commit(batch);
    EXPECT_TRUE(is_kept()) << "committed since the start";
  }
  store.reset();
  store = history::SqliteStore::open(dir.path, options);
  {
    Feeder feeder(away, {"here", false}, *store, clock_);
    EXPECT_TRUE(is_kept()) << "not looked at since the start";
  }
  Feeder feeder(options_, {"here", false}, *store, clock_);
  feeder.start({});
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (is_kept() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(is_kept());
  EXPECT_EQ(query("SELECT status FROM runs ORDER BY version DESC LIMIT 1"), "2\n");
}

}  // namespace
}  // namespace scalewatch::clickhouse

// Tables that a server makes and brings up to date, what expires in them, and alerts there.
#include "server/history/clickhouse/tables.h"

#include "server/history/clickhouse/keys.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

using ::testing::HasSubstr;

TEST_F(ClickHouseTest, TablesGoUpAndAnOlderServerRefusesNewerOnes) {
  Connection connection(options_);
  // The database is made by the first server.
  prepare_tables(connection, options_);
  prepare_tables(connection, options_);
  const std::uint32_t next = kSchemaVersion + 1;
  const std::vector<Migration> steps = {{next, {{"records", "remark String"}}}};
  prepare_tables(connection, options_, steps, next);
  EXPECT_THAT(connection.query("DESCRIBE TABLE records"), HasSubstr("remark"));
  prepare_tables(connection, options_, steps, next);
  try {
    prepare_tables(connection, options_);
    FAIL() << "an older server took newer tables";
  } catch (const engine::StoreError& error) {
    EXPECT_THAT(error.what(), HasSubstr("schema version " + std::to_string(next) + ", made by a newer scalewatchd"));
    EXPECT_FALSE(error.retryable);
  }
}

// By ClickHouse's clock, and by when they were written: the clock that their days are of may have been wrong.
TEST_F(ClickHouseTest, ReportsAsReceivedGoAfterTheirTime) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  auto batches = history::one_rank(7, 32);
  const std::int64_t old_ms = 1'000'000'000'000;  // in 2001
  for (auto& batch : batches) {
    for (auto& row : batch.reports) row.time_ms = old_ms;
    store->commit(batch);
  }
  feed(*store, {"u1"});
  Connection connection(options_);
  const auto drop = [&](std::chrono::milliseconds keep, std::int64_t ahead_ms) {
    options_.keep_log = keep;
    drop_payloads(connection, options_, clock_.wall_ms() + ahead_ms);
  };
  constexpr std::int64_t kFiveDays = 5 * 86'400'000;
  drop(std::chrono::hours(72), kFiveDays);
  EXPECT_EQ(query("SELECT count() FROM payloads"), "32\n") << "a clock that is ahead took them";
  drop(std::chrono::seconds(1), -kFiveDays);
  EXPECT_EQ(query("SELECT count() FROM payloads"), "32\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(4500));
  connection.query("INSERT INTO payloads (run, pos, day) VALUES (1, 1, '2026-11-30')");
  drop(std::chrono::seconds(2), 0);
  EXPECT_EQ(query("SELECT DISTINCT toString(day) FROM payloads"), "2026-11-30\n");
  EXPECT_EQ(query("SELECT count() FROM reports"), "32\n");
}

// The server's clock was an hour ahead, and is right after its restart.
TEST_F(ClickHouseTest, ARunsRowIsTheNewestOneWhateverTheClockSays) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  engine::CommitBatch batch;
  batch.runs = {{.run_uid = "u1", .name = "alpha", .status = 1, .overview = {}}};
  batch.snapshots = {{"u1", 1, "first"}};
  store->commit(batch);
  constexpr std::uint64_t kTerm = 3;
  const std::int64_t now = clock_.wall_ms();
  {
    prepare_tables(*std::make_unique<Connection>(options_), options_);
    Writer(options_, *store, "here").write_run("u1", kTerm, now + 3'600'000, 1, true);
  }
  batch.runs[0].status = 2;
  batch.snapshots = {{"u1", 2, "second"}};
  store->commit(batch);
  EXPECT_FALSE(Writer(options_, *store, "here").write_run("u1", kTerm, now, 1, true))
      << "the log is not there up to the snapshot";
  EXPECT_EQ(query("SELECT argMax(pos, version) FROM snapshots"), "1\n");
  EXPECT_TRUE(Writer(options_, *store, "here").write_run("u1", kTerm, now, 2, true));
  EXPECT_EQ(query("SELECT argMax(status, version), uniqExact(version) FROM runs"), "2\t3\n");
  EXPECT_EQ(query("SELECT argMax(pos, version) FROM snapshots"), "2\n");
  // An owner of before, whose clock is far ahead, writes once more: it stays behind.
  batch.runs[0].status = 1;
  store->commit(batch);
  Writer(options_, *store, "before").write_run("u1", kTerm - 1, now + 7'200'000, 2, false);
  EXPECT_EQ(query("SELECT argMax(status, version) FROM runs"), "2\n");
}

// Alerts of a run that one server had, and another one has now.
class AlertsThere : public ClickHouseTest {
 protected:
  struct Server {
    Server(const Options& options, const std::string& name) : writer(options, *store, name) {}
    TempDir dir;
    const std::unique_ptr<history::SqliteStore> store = history::SqliteStore::open(dir.path, by_hand());
    Writer writer;
  };
  enum State : std::int32_t { kFiring = 2, kAcknowledged = 3, kResolved = 5 };
  void change(Server& server, State state, std::int64_t changed_ms, std::uint64_t term, std::int64_t now_ms = 1000) {
    engine::CommitBatch batch;
    batch.runs = {{.run_uid = kUid, .name = "moves", .overview = {}}};
    batch.alerts = {{kAlert, kUid, "NonFinite", 3, state, 10, changed_ms, "bytes"}};
    server.store->commit(batch);
    server.writer.write_run(kUid, term, now_ms, 0, false);
  }
  // The first one tells of it at this time of its clock; the second one takes the run over, and ends it.
  void fire_and_resolve(Server& first, std::int64_t fired_ms, Server& second) {
    Shared shared(options_, clock_);
    EXPECT_TRUE(shared.open_alerts(10).empty());
    change(first, kFiring, fired_ms, 1);
    ASSERT_EQ(shared.open_alerts(10).size(), 1U);
    ASSERT_TRUE(history::import_run(shared, kUid, 2, *second.store));
    change(second, kResolved, clock_.wall_ms(), 2);
    EXPECT_EQ(second.store->find(kAlert)->state, kResolved);
    EXPECT_TRUE(shared.open_alerts(10).empty());
  }

  const std::string kUid = "00000000000000aa";
  const std::string kAlert = kUid + "/f";
};

TEST_F(AlertsThere, OneOfAClockThatIsAheadChangesAllTheSame) {
  Server first(options_, "first");
  Server second(options_, "second");
  fire_and_resolve(first, clock_.wall_ms() + 10'000'000, second);
}

TEST_F(AlertsThere, WhatAFormerOwnerStillSaysDoesNotCount) {
  Server first(options_, "first");
  Server second(options_, "second");
  fire_and_resolve(first, clock_.wall_ms(), second);
  change(first, kAcknowledged, clock_.wall_ms() + 10'000'000, 1, 2000);
  EXPECT_TRUE(Shared(options_, clock_).open_alerts(10).empty());
  EXPECT_EQ(query("SELECT uniqExact(term) FROM alerts"), "2\n");
}

}  // namespace
}  // namespace scalewatch::clickhouse

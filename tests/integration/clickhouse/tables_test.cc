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

// Half of a run is of a server before there were scores.

TEST_F(ClickHouseTest, ReportsAsReceivedGoAfterTheirTime) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  auto batches = history::one_rank(7, 32);
  std::int64_t old_ms = 1'000'000'000'000;  // in 2001
  for (auto& batch : batches) {
    for (auto& row : batch.reports) row.time_ms = &batch == &batches.back() ? clock_.wall_ms() : old_ms;
    store->commit(batch);
  }
  feed(*store, {"u1"});
  const auto kept = batches.back().reports.size();
  options_.keep_log = std::chrono::hours(72);
  Connection connection(options_);
  drop_payloads(connection, options_, (clock_.wall_ms() - options_.keep_log.count()) / 86'400'000);
  EXPECT_EQ(query("SELECT count() FROM payloads"), std::to_string(kept) + "\n");
  EXPECT_EQ(query("SELECT count() FROM reports"), "32\n");
}

TEST_F(ClickHouseTest, AnAlertOfAClockThatIsAheadChangesAllTheSame) {
  const std::string uid = "00000000000000aa";
  const engine::AlertRow firing{uid + "/f", uid, "NonFinite", 3, 2, 10, clock_.wall_ms() + 10'000'000, "firing"};
  Shared shared(options_, clock_);
  EXPECT_TRUE(shared.open_alerts(10).empty());
  TempDir first_dir;
  const auto first = history::SqliteStore::open(first_dir.path, by_hand());
  engine::CommitBatch made;
  made.runs = {{.run_uid = uid, .name = "ahead", .overview = {}}};
  made.alerts = {firing};
  first->commit(made);
  Writer(options_, *first, "first").write_run(uid, row_version(1, 1000), 0, false);
  ASSERT_EQ(shared.open_alerts(10).size(), 1U);

  TempDir second_dir;
  const auto second = history::SqliteStore::open(second_dir.path, by_hand());
  ASSERT_TRUE(history::import_run(shared, uid, 2, *second));
  engine::CommitBatch changed;
  changed.alerts = {firing};
  changed.alerts[0].state = 5;  // resolved
  changed.alerts[0].changed_ms = clock_.wall_ms();
  second->commit(changed);
  EXPECT_EQ(second->find(firing.id)->state, 5);
  Writer(options_, *second, "second").write_run(uid, row_version(2, 1000), 0, false);
  EXPECT_TRUE(shared.open_alerts(10).empty());
}

TEST_F(ClickHouseTest, WhatAFormerOwnerStillSaysOfAnAlertDoesNotCount) {
  const std::string uid = "00000000000000ab";
  const engine::AlertRow firing{uid + "/f", uid, "NonFinite", 3, 2, 10, clock_.wall_ms(), "firing"};
  engine::CommitBatch made;
  made.runs = {{.run_uid = uid, .name = "late", .overview = {}}};
  made.alerts = {firing};
  Shared shared(options_, clock_);
  TempDir first_dir;
  const auto first = history::SqliteStore::open(first_dir.path, by_hand());
  first->commit(made);
  Writer former(options_, *first, "first");
  EXPECT_TRUE(shared.open_alerts(10).empty());
  former.write_run(uid, row_version(1, 1000), 0, false);

  TempDir second_dir;
  const auto second = history::SqliteStore::open(second_dir.path, by_hand());
  ASSERT_TRUE(history::import_run(shared, uid, 2, *second));
  engine::CommitBatch changed;
  changed.alerts = {firing};
  changed.alerts[0].state = 5;  // resolved
  second->commit(changed);
  Writer(options_, *second, "second").write_run(uid, row_version(2, 1000), 0, false);
  EXPECT_TRUE(shared.open_alerts(10).empty());

  changed.alerts[0].state = 3;  // acknowledged
  changed.alerts[0].changed_ms = clock_.wall_ms() + 10'000'000;
  first->commit(changed);
  former.write_run(uid, row_version(1, 2000), 0, false);
  EXPECT_TRUE(shared.open_alerts(10).empty());
  EXPECT_EQ(query("SELECT uniqExact(term) FROM alerts"), "2\n");
}

}  // namespace
}  // namespace scalewatch::clickhouse

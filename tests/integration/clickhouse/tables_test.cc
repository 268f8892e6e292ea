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
  void change(Server& server, State state, std::int64_t changed_ms, std::uint64_t version) {
    engine::CommitBatch batch;
    batch.runs = {{.run_uid = kUid, .name = "moves", .overview = {}}};
    batch.alerts = {{kAlert, kUid, "NonFinite", 3, state, 10, changed_ms, "bytes"}};
    server.store->commit(batch);
    server.writer.write_run(kUid, version, 0, false);
  }
  // The first one tells of it at this time of its clock; the second one takes the run over, and ends it.
  void fire_and_resolve(Server& first, std::int64_t fired_ms, Server& second) {
    Shared shared(options_, clock_);
    EXPECT_TRUE(shared.open_alerts(10).empty());
    change(first, kFiring, fired_ms, row_version(1, 1000));
    ASSERT_EQ(shared.open_alerts(10).size(), 1U);
    ASSERT_TRUE(history::import_run(shared, kUid, 2, *second.store));
    change(second, kResolved, clock_.wall_ms(), row_version(2, 1000));
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
  change(first, kAcknowledged, clock_.wall_ms() + 10'000'000, row_version(1, 2000));
  EXPECT_TRUE(Shared(options_, clock_).open_alerts(10).empty());
  EXPECT_EQ(query("SELECT uniqExact(term) FROM alerts"), "2\n");
}

}  // namespace
}  // namespace scalewatch::clickhouse

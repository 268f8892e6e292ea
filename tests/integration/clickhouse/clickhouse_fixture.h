// A database of its own in the ClickHouse whose addresses are in SCALEWATCH_CLICKHOUSE (clickhouse_test.py starts it).
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "server/app/system_clock.h"
#include "server/history/clickhouse/feeder.h"
#include "server/history/clickhouse/older.h"
#include "server/history/clickhouse/shared.h"
#include "tests/unit/history/questions.h"

namespace scalewatch::clickhouse {

using history::TempDir;

class ClickHouseTest : public ::testing::Test {
 protected:
  ClickHouseTest() {
    const char* const hosts = std::getenv("SCALEWATCH_CLICKHOUSE");
    if (hosts == nullptr) return;
    options_.hosts = hosts;
    static int number = 0;
    options_.database = "t" + std::to_string(clock_.wall_ms()) + "_" + std::to_string(++number);
    if (const char* const cluster = std::getenv("SCALEWATCH_CLICKHOUSE_CLUSTER")) {
      options_.layout = "sharded";
      options_.cluster = cluster;
    }
    if (const char* const layout = std::getenv("SCALEWATCH_CLICKHOUSE_LAYOUT")) options_.layout = layout;
    if (const char* const compression = std::getenv("SCALEWATCH_CLICKHOUSE_COMPRESSION")) options_.compression = compression;
    options_.every = std::chrono::milliseconds(100);
    options_.keep_log = std::chrono::hours(24 * 36'500);  // the tests' clock stands in 1970
  }
  void SetUp() override {
    if (!options_.enabled()) GTEST_SKIP() << "SCALEWATCH_CLICKHOUSE is not set: clickhouse_test.py starts a server and sets it";
  }
  void TearDown() override {
    if (!options_.enabled()) return;
    Connection connection(options_);
    for (std::size_t host = 0; host < connection.hosts(); ++host) {
      connection.execute_at(host, "DROP DATABASE IF EXISTS " + options_.database, false);
    }
  }

  static history::StoreOptions by_hand() {
    history::StoreOptions options;
    options.compaction.thread = false;
    options.read_transaction = std::chrono::minutes(5);
    return options;
  }
  std::string answers(history::SqliteStore& store, history::OlderHistory* older) {
    history::ApiLimits limits;
    limits.read_time = std::chrono::minutes(5);
    return history::answers(*history::make_history_api(store, limits, older));
  }
  // Until all that was committed is there.
  void feed(history::SqliteStore& store, const std::vector<std::string>& runs, std::uint64_t records = 1'000'000) {
    Options options = options_;
    options.batch_records = records;
    Feeder feeder(options, {"here", false}, store, clock_);
    feeder.start({});
    for (const auto& run : runs) ASSERT_TRUE(feeder.drain(run, std::chrono::minutes(1))) << feeder.stats().error;
    feeder.stop(std::chrono::seconds(10));
  }
  // A store that has run u1 by its names and streams alone: all else is asked of ClickHouse.
  std::unique_ptr<history::SqliteStore> names_only(const TempDir& dir) {
    auto store = history::SqliteStore::open(dir.path, by_hand());
    Shared shared(options_, clock_);
    EXPECT_TRUE(history::import_run(shared, "u1", 2, *store));
    store->write(history::WriteClass::kCommit, [](history::Connection& writer) {
      writer.execute("DELETE FROM payloads; DELETE FROM reports; DELETE FROM scaler_rows; DELETE FROM inputs");
    });
    return store;
  }
  // How many different ones were marked. Rows that are there twice may be merged by now.
  std::string batches_there() { return query("SELECT uniqExact(from_pos, to_pos) FROM batches"); }
  void empty(const std::string& table) {
    Connection connection(options_);
    for (std::size_t host = 0; host < connection.hosts(); ++host) {
      connection.execute_at(host, "TRUNCATE TABLE " + table + (options_.sharded() ? "_local" : ""));
    }
  }
  // That ClickHouse was asked so far.
  std::uint64_t questions() {
    const std::string sql = "SELECT sum(value) FROM system.events WHERE event = 'Query'";
    return std::stoull("0" + Connection(options_).execute_at(0, sql));
  }
  std::string query(const std::string& sql) { return Connection(options_).query(sql); }

  Options options_;
  app::SystemClock clock_;
};

}  // namespace scalewatch::clickhouse

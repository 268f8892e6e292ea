// The same rows give the same answers wherever they are, and a batch that is sent again changes none.
#include "server/history/clickhouse/tables.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

TEST_F(ClickHouseTest, AnswersAreTheSameWhereverTheRowsAre) {
  for (const std::uint32_t seed : {1U, 2U}) {
    const auto batches = seed == 1 ? history::one_rank(seed, 400) : history::ranks_and_restarts(seed);
    TempDir here_dir;
    const auto here = history::SqliteStore::open(here_dir.path, by_hand());
    for (const auto& batch : batches) here->commit(batch);
    const std::string expected = answers(*here, nullptr);
    feed(*here, {"u1"}, 10'000);

    // Another server takes the run over: of what was before, it has the log since the snapshot at most, and asks for the rest.
    TempDir there_dir;
    const auto there = history::SqliteStore::open(there_dir.path, by_hand());
    Shared shared(options_, clock_);
    Older older(options_);
    ASSERT_TRUE(history::import_run(shared, "u1", 2, *there));
    history::expect_same(expected, answers(*there, &older), "taken over, seed " + std::to_string(seed));
    there->write(history::WriteClass::kCommit, [](history::Connection& writer) {
      writer.execute("DELETE FROM payloads; DELETE FROM reports; DELETE FROM scaler_rows; DELETE FROM inputs");
    });
    history::expect_same(expected, answers(*there, &older), "nothing here but names, seed " + std::to_string(seed));
    // Attempts of many tensors came from reports as they were received, while these were there.
    const history::OlderRange attempt{"u1", 1, 129, 129, {}, {}, false};
    const auto reports = older.reports(attempt, 100);
    ASSERT_FALSE(reports.empty());
    EXPECT_EQ(older.payloads("u1", reports).size(), reports.size());
    empty("payloads");
    EXPECT_EQ(older.payloads("u1", reports).size(), 0U);
    history::expect_same(expected, answers(*there, &older), "payloads are gone, seed " + std::to_string(seed));

    // Half of it is only there, the rest only here.
    for (const char* table : {"payloads", "reports", "scaler_rows"}) {
      const std::string sql = std::string("DELETE FROM ") + table;
      there->write(history::WriteClass::kCommit, [&](history::Connection& writer) { writer.execute(sql.c_str()); });
    }
    there->write(history::WriteClass::kCommit,
                 [](history::Connection& writer) { writer.execute("UPDATE shared_floors SET attempt = 180"); });
    engine::CommitBatch rest;
    for (const auto& batch : batches) {
      for (const auto& row : batch.reports) {
        if (row.attempt >= 180) rest.reports.push_back(row);
      }
    }
    there->commit(rest);
    history::expect_same(expected, answers(*there, &older), "half here and half there, seed " + std::to_string(seed));
    TearDown();
  }
}

// Asks of rows that only ClickHouse has, wherever the suite is run.
class SentTwice : public ClickHouseTest {
 protected:
  void check(const std::vector<engine::CommitBatch>& batches) {
    TempDir dir;
    const auto store = history::SqliteStore::open(dir.path, by_hand());
    for (const auto& batch : batches) store->commit(batch);
    const std::string expected = answers(*store, nullptr);
    feed(*store, {"u1"});
    const std::string batches_before = batches_there();
    // The server was killed before it noted what it had sent, in batches of other sizes even.
    store->write(history::WriteClass::kCommit, [](history::Connection& writer) { writer.execute("DELETE FROM feed_runs"); });
    feed(*store, {"u1"}, 10'000);
    EXPECT_NE(batches_there(), batches_before) << "the second time did send rows";

    TempDir there_dir;
    const auto there = history::SqliteStore::open(there_dir.path, by_hand());
    Shared shared(options_, clock_);
    Older older(options_);
    ASSERT_TRUE(history::import_run(shared, "u1", 2, *there));
    EXPECT_EQ(history::count_reports(*there, "u1"), history::count_reports(*store, "u1"));
    there->write(history::WriteClass::kCommit, [](history::Connection& writer) {
      writer.execute("DELETE FROM payloads; DELETE FROM reports; DELETE FROM scaler_rows");
    });
    history::expect_same(expected, answers(*there, &older), "sent twice");
  }
};

TEST_F(SentTwice, AllCountsOnceOfOneRank) {
  check(history::one_rank(3, 200));
}

TEST_F(SentTwice, AllCountsOnceOfRanksShardsAndRestarts) {
  check(history::ranks_and_restarts(4));
}

class Thinned : public ClickHouseTest {
 protected:
  void check(const std::vector<engine::CommitBatch>& batches);
};

void Thinned::check(const std::vector<engine::CommitBatch>& batches) {
  TempDir dir;
  auto options = by_hand();
  const auto plain = history::SqliteStore::open(dir.path, options);
  for (const auto& batch : batches) plain->commit(batch);
  const std::string expected = answers(*plain, nullptr);

  TempDir thin_dir;
  options.retention.keep_attempts = 100;
  options.retention.every = std::chrono::milliseconds(1);
  const auto thin = history::SqliteStore::open(thin_dir.path, options);
  for (const auto& batch : batches) thin->commit(batch);
  thin->retention().keep_unsent(true);
  thin->compactor().run_now(true);
  for (int i = 0; i < 1000 && thin->retention().step(clock_.wall_ms()); ++i) {
  }
  Older older(options_);
  const auto thinned = [&] {
    history::ReadPool::Lease lease(thin->readers());
    return (*lease).scalar("SELECT count(*) FROM stretches WHERE thinned = 1");
  };
  EXPECT_EQ(thinned(), 0) << "what ClickHouse does not have stays whole";
  feed(*thin, {"u1"});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int i = 0; i < 1000 && thin->retention().step(clock_.wall_ms()); ++i) {
  }
  EXPECT_GT(thinned(), 0);
  history::expect_same(expected, answers(*thin, &older), "thinned");
}

TEST_F(Thinned, AttemptsOfOneRankComeWhole) {
  check(history::one_rank(4, 400));
}

// Where it ends here stretches of several streams overlap.
TEST_F(Thinned, AttemptsOfRanksShardsAndRestartsComeWhole) {
  check(history::ranks_and_restarts(6));
}

TEST_F(ClickHouseTest, AnswersOverTablesOfVersionOneStayTheSame) {
  const auto batches = history::one_rank(11, 300);
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : batches) store->commit(batch);
  const std::string expected = answers(*store, nullptr);
  constexpr std::uint64_t kHalf = 150;  // of its log
  TempDir half_dir;
  const auto half = history::SqliteStore::open(half_dir.path, by_hand());
  for (auto batch : batches) {
    std::erase_if(batch.reports, [](const auto& row) { return row.pos > kHalf; });
    half->commit(batch);
  }
  feed(*half, {"u1"});
  history::FeedState(*store).owned("u1", 0);
  history::FeedState(*store).sent({{"u1", kHalf}}, {});
  Connection connection(options_);
  for (const char* statement :
       {"DROP TABLE alerts",
        "CREATE TABLE alerts (run UInt64, id String, changed_ms Int64, run_uid String, rule String, severity Int32, state "
        "Int32, "
        "fired_ms Int64, alert String) ENGINE = ReplacingMergeTree(changed_ms) ORDER BY (run, id)",
        "INSERT INTO alerts VALUES (7, 'old', 1, 'u7', 'NonFinite', 3, 2, 10, 'bytes')", "DROP TABLE scores",
        "DROP TABLE non_finite", "ALTER TABLE reports DROP COLUMN records", "ALTER TABLE reports DROP COLUMN wide_scores",
        "DROP TABLE schema_version",
        "CREATE TABLE schema_version (version UInt32, made_ms Int64) ENGINE = ReplacingMergeTree() ORDER "
        "BY version",
        "INSERT INTO schema_version VALUES (1, 0)"}) {
    connection.query(statement);
  }
  feed(*store, {"u1"}, 10'000);
  EXPECT_EQ(query("SELECT max(version) FROM schema_version"), std::to_string(kSchemaVersion) + "\n");
  EXPECT_NE(query("SELECT count() FROM scores"), "0\n");
  EXPECT_EQ(query("SELECT max(pos) FROM reports WHERE records = 4294967295"), std::to_string(kHalf) + "\n");

  TempDir there_dir;
  const auto there = history::SqliteStore::open(there_dir.path, by_hand());
  Shared shared(options_, clock_);
  Older older(options_);
  ASSERT_EQ(shared.open_alerts(10).size(), 1U);
  EXPECT_EQ(shared.open_alerts(10)[0].id, "old");
  ASSERT_TRUE(history::import_run(shared, "u1", 2, *there));
  there->write(history::WriteClass::kCommit, [](history::Connection& writer) {
    writer.execute("DELETE FROM payloads; DELETE FROM reports; DELETE FROM scaler_rows; DELETE FROM inputs");
  });
  history::expect_same(expected, answers(*there, &older), "half of it without scores");
}

}  // namespace
}  // namespace scalewatch::clickhouse

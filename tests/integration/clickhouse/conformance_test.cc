// The history against a real ClickHouse, whose addresses are in SCALEWATCH_CLICKHOUSE (clickhouse_test.py starts it): the same
// rows give the same answers wherever they are, a batch that is sent again changes none, and a run that is taken over is the
// run that was given up.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "server/history/clickhouse/claims.h"
#include "server/history/clickhouse/feeder.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/older.h"
#include "server/history/clickhouse/shared.h"
#include "server/history/clickhouse/tables.h"
#include "tests/unit/history/questions.h"

namespace scalewatch::clickhouse {
namespace {

using history::TempDir;
using ::testing::HasSubstr;

class RealClock final : public engine::Clock {
 public:
  [[nodiscard]] std::int64_t wall_ms() const override { return now<std::chrono::system_clock>(); }
  [[nodiscard]] std::int64_t steady_ms() const override { return now<std::chrono::steady_clock>(); }

 private:
  template <class Any>
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Any::now().time_since_epoch()).count();
  }
};

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
  std::string query(const std::string& sql) { return Connection(options_).query(sql); }

  Options options_;
  RealClock clock_;
};

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

TEST_F(ClickHouseTest, WhatIsSentTwiceCountsOnce) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : history::one_rank(3, 200)) store->commit(batch);
  const std::string expected = answers(*store, nullptr);
  feed(*store, {"u1"});
  const std::string rows = query("SELECT count() FROM records");
  // The server was killed before it noted what it had sent, in batches of other sizes even.
  store->write(history::WriteClass::kCommit, [](history::Connection& writer) { writer.execute("DELETE FROM feed_runs"); });
  feed(*store, {"u1"}, 10'000);
  EXPECT_NE(query("SELECT count() FROM records"), rows) << "the second time did send rows";

  TempDir there_dir;
  const auto there = history::SqliteStore::open(there_dir.path, by_hand());
  Shared shared(options_, clock_);
  Older older(options_);
  ASSERT_TRUE(history::import_run(shared, "u1", 2, *there));
  EXPECT_EQ(history::count_reports(*there, "u1"), 203U);
  there->write(history::WriteClass::kCommit, [](history::Connection& writer) {
    writer.execute("DELETE FROM payloads; DELETE FROM reports; DELETE FROM scaler_rows");
  });
  history::expect_same(expected, answers(*there, &older), "sent twice");
}

TEST_F(ClickHouseTest, ThinnedAttemptsComeWhole) {
  TempDir dir;
  auto options = by_hand();
  const auto plain = history::SqliteStore::open(dir.path, options);
  const auto batches = history::one_rank(4, 400);
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

TEST_F(ClickHouseTest, ATakenOverRunIsTheRunThatWasGivenUp) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : history::ranks_and_restarts(5)) store->commit(batch);
  engine::CommitBatch more;
  more.inputs = {{"u1", 5000, R"({"not":"an input"})"}};
  more.snapshots = {{"u1", 100, "not a state: all of the log is needed"}};
  engine::AlertRow alert{"u1/f1", "u1", "NonFinite", 3, 2, 10, 20, "bytes"};
  more.alerts = {alert};
  store->commit(more);
  feed(*store, {"u1"});

  TempDir there_dir;
  const auto there = history::SqliteStore::open(there_dir.path, by_hand());
  Shared shared(options_, clock_);
  EXPECT_FALSE(history::import_run(shared, "u2", 2, *there));
  ASSERT_TRUE(history::import_run(shared, "u1", 2, *there));
  ASSERT_TRUE(history::import_run(shared, "u1", 2, *there)) << "again, as after a crash";
  const auto expected = history::read_all(*store, "u1");
  const auto got = history::read_all(*there, "u1");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].report.has_value(), expected[i].report.has_value());
    if (got[i].input) {
      EXPECT_EQ(got[i].input->payload, expected[i].input->payload);
    } else {
      EXPECT_EQ(got[i].report->pos, expected[i].report->pos);
      EXPECT_EQ(got[i].report->seq, expected[i].report->seq);
      EXPECT_EQ(got[i].report->incarnation, expected[i].report->incarnation);
      EXPECT_EQ(got[i].report->payload, expected[i].report->payload);
    }
  }
  EXPECT_EQ(there->newest_snapshot("u1")->state, more.snapshots[0].state);
  EXPECT_EQ(there->find("u1/f1")->alert, "bytes");
  EXPECT_EQ(shared.open_alerts(10).size(), 1U);
  EXPECT_EQ(there->tables("u1", 2, history::incarnation(1)).size(), 1U);
  const auto streams = there->incarnations("u1");
  ASSERT_EQ(streams.size(), 4U);
  EXPECT_EQ(streams[0].durable_seq, 330U);
  // What was imported is not sent again.
  Feeder feeder(options_, {"there", false}, *there, clock_);
  EXPECT_EQ(feeder.replicated_seq("u1", 0, history::incarnation(1)), 330U);
  EXPECT_TRUE(feeder.drain("u1", std::chrono::milliseconds(0)));
}

TEST_F(ClickHouseTest, TheLaterOwnersLogCounts) {
  // Both think that they own the run: what the first one still sends of places that the second one fills does not count.
  const auto batches = history::one_rank(6, 60);
  TempDir first_dir;
  const auto first = history::SqliteStore::open(first_dir.path, by_hand());
  for (std::size_t i = 0; i < 3; ++i) first->commit(batches[i]);
  Shared shared(options_, clock_);
  const std::uint64_t term = shared.claim("alpha", "first");
  EXPECT_EQ(term, 1U);
  Feeder feeder(options_, {"first", true}, *first, clock_);
  EXPECT_EQ(feeder.term_of("u1"), 0U);
  std::atomic<bool> told = false;
  history::SharedRun lost;
  feeder.on_lost([&](const std::string&, const history::SharedRun& now) {
    lost = now;
    told = true;
  });
  feeder.start({});
  feeder.own("u1", "alpha", term);
  ASSERT_TRUE(feeder.drain("u1", std::chrono::minutes(1))) << feeder.stats().error;

  TempDir second_dir;
  const auto second = history::SqliteStore::open(second_dir.path, by_hand());
  engine::CommitBatch stump;  // it began here, and went on elsewhere before anything of it was shared
  stump.runs = {{.run_uid = "u0", .name = "alpha", .created_ms = 1, .overview = {}}};
  second->commit(stump);
  EXPECT_EQ(shared.claim("alpha", "second"), 2U);
  EXPECT_EQ(shared.find_run("alpha")->instance, "second");
  ASSERT_TRUE(history::import_run(shared, "u1", 2, *second));
  EXPECT_EQ(history::count_reports(*second, "u1"), history::count_reports(*first, "u1"));
  EXPECT_EQ(second->find_run("alpha")->run_uid, "u1");
  EXPECT_FALSE(second->find_run("u0"));
  Feeder seconds(options_, {"second", true}, *second, clock_);
  EXPECT_EQ(seconds.term_of("u1"), 2U);
  EXPECT_EQ(feeder.term_of("u1"), 1U);
  first->commit(batches[3]);
  for (int i = 0; i < 600 && !told; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(told);
  EXPECT_EQ(lost.instance, "second");
  EXPECT_EQ(lost.row.name, "alpha");
  feeder.stop(std::chrono::seconds(1));
}

TEST_F(ClickHouseTest, EntriesThatALaterOwnerReplacedAreNoAnswer) {
  Connection connection(options_);
  prepare_tables(connection, options_);
  const std::uint64_t run = run_key("u1");
  Block inputs(columns_of("inputs"));
  for (const auto& [pos, term, payload] : std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>>{
           {4, 1, "first"}, {6, 1, "first, too late"}, {7, 2, "second"}, {9, 1, "first, too late"}, {12, 2, "not marked"}}) {
    add_row(inputs, run, pos, term, payload);
  }
  connection.insert("inputs", inputs);
  Block marks(columns_of("batches"));
  const std::uint64_t none = 0;
  for (const auto& [term, from, to] :
       std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>{{1, 1, 4}, {2, 5, 8}, {1, 5, 9}, {2, 9, 11}}) {
    add_row(marks, run, term, kNoRank, none, from, to, from, to, none, std::string("any"), std::int64_t{0});
  }
  connection.insert("batches", marks);
  std::vector<std::string> told;
  for (const auto& input : Older(options_).inputs("u1", 0, 100)) told.push_back(input.payload);
  EXPECT_EQ(told, (std::vector<std::string>{"first", "second"}));
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

TEST_F(ClickHouseTest, OfOneNameTheRunOfTheLatestClaimIsFound) {
  // The first server shares its run when another one has claimed the name already, and made a run of its own.
  Shared shared(options_, clock_);
  EXPECT_FALSE(shared.find_run("twice"));
  for (const std::uint64_t term : {2, 1}) {
    TempDir dir;
    const auto store = history::SqliteStore::open(dir.path, by_hand());
    Writer writer(options_, *store, "any");
    const std::string uid = "000000000000000" + std::to_string(term);
    engine::CommitBatch made;
    made.runs = {{.run_uid = uid, .name = "twice", .created_ms = static_cast<std::int64_t>(term), .overview = {}}};
    store->commit(made);
    writer.write_run(uid, row_version(term, 1000), 0, false);
  }
  EXPECT_EQ(shared.find_run("twice")->row.run_uid, "0000000000000002");
  EXPECT_EQ(shared.find_run("twice")->row_term, 2U);
  EXPECT_EQ(shared.find_run("0000000000000001")->row_term, 1U);
  std::vector<std::string> listed;
  for (const auto& run : shared.list_runs(100, Shared::Which::kAll)) listed.push_back(run.row.run_uid);
  EXPECT_THAT(listed, ::testing::Contains("0000000000000002"));
  EXPECT_THAT(listed, ::testing::Not(::testing::Contains("0000000000000001")));
}

TEST_F(ClickHouseTest, NoTwoClaimsHaveTheSameTerm) {
  constexpr int kServers = 4;
  constexpr int kClaims = 5;
  std::mutex mutex;
  std::set<std::uint64_t> terms;
  std::vector<std::thread> servers;
  servers.reserve(kServers);
  for (int server = 0; server < kServers; ++server) {
    servers.emplace_back([&, server] {
      Shared shared(options_, clock_);
      for (int claim = 0; claim < kClaims; ++claim) {
        const std::uint64_t term = shared.claim("contended", std::to_string(server));
        const std::lock_guard lock(mutex);
        terms.insert(term);
      }
    });
  }
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(terms.size(), std::size_t{kServers * kClaims});
}

TEST_F(ClickHouseTest, WindowsOfTermsDoNotOverlap) {
  const LogCover cover = cover_of({{.term = 1, .rank = 0xffffffff, .from_pos = 1, .to_pos = 100},
                                   {.term = 1, .rank = 0, .stream = 7, .last_seq = 60, .from_pos = 1, .to_pos = 100},
                                   {.term = 1, .rank = 0, .stream = 7, .last_seq = 90, .from_pos = 101, .to_pos = 150},
                                   {.term = 2, .rank = 0xffffffff, .from_pos = 101, .to_pos = 120}});
  EXPECT_TRUE(cover.holds(1, 100));
  EXPECT_FALSE(cover.holds(1, 101)) << "the second owner went on from there";
  EXPECT_TRUE(cover.holds(2, 101));
  EXPECT_FALSE(cover.holds(2, 121));
  EXPECT_EQ(cover.seqs.at({0, 7}), 60U);
}

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
  history::FeedState(*store).sent({{"u1", kHalf}}, {});
  Connection connection(options_);
  for (const char* statement :
       {"DROP TABLE alerts",
        "CREATE TABLE alerts (run UInt64, id String, changed_ms Int64, run_uid String, rule String, severity Int32, state "
        "Int32, "
        "fired_ms Int64, alert String) ENGINE = ReplacingMergeTree(changed_ms) ORDER BY (run, id)",
        "INSERT INTO alerts VALUES (7, 'old', 1, 'u7', 'NonFinite', 3, 2, 10, 'bytes')", "DROP TABLE scores",
        "DROP TABLE non_finite", "ALTER TABLE reports DROP COLUMN records", "DROP TABLE schema_version",
        "CREATE TABLE schema_version (version UInt32, made_ms Int64) ENGINE = ReplacingMergeTree() ORDER "
        "BY version",
        "INSERT INTO schema_version VALUES (1, 0)"}) {
    connection.query(statement);
  }
  feed(*store, {"u1"}, 10'000);
  EXPECT_EQ(query("SELECT max(version) FROM schema_version"), std::to_string(kSchemaVersion) + "\n");
  EXPECT_NE(query("SELECT count() FROM scores"), "0\n");

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

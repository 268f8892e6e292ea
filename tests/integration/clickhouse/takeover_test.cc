// A run that is taken over is the run that was given up, and only its last owner counts.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/log_cover.h"
#include "server/history/clickhouse/run_log.h"
#include "server/history/clickhouse/tables.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

engine::AlertRow told(const std::string& id, std::int64_t resolved_ms) {
  v1::Alert alert;
  alert.add_pages()->set_sink("sink");
  alert.set_resolved_ms(resolved_ms);
  return {id, "u1", "NonFinite", 3, v1::ALERT_STATE_RESOLVED, 10, 20, alert.SerializeAsString()};
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
  // What is here and was never shared stays where somebody waits for its end, and nothing else.
  engine::CommitBatch own;
  own.alerts = {told("u1/left", 0), told("u1/over", 30), {"u1/untold", "u1", "NonFinite", 3, 2, 10, 20, ""}};
  there->commit(own);
  ASSERT_TRUE(history::import_run(shared, "u1", 2, *there)) << "again, as after a crash";
  EXPECT_EQ(shared.alert_ids("u1"), std::set<std::string>{"u1/f1"});
  EXPECT_TRUE(there->find("u1/left"));
  EXPECT_FALSE(there->find("u1/over"));
  EXPECT_FALSE(there->find("u1/untold"));
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
  const std::uint64_t term = shared.claim("alpha", "first", 0);
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
  EXPECT_EQ(shared.claim("alpha", "second", 0), 2U);
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

// Whoever takes the run over says so.
TEST_F(ClickHouseTest, ReportsThatAreNotThereAsReceivedAnyMoreAreCounted) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  constexpr std::size_t kOld = 16;
  std::size_t number = 0;
  for (auto& batch : history::one_rank(7, 48)) {
    for (auto& row : batch.reports) row.time_ms = number++ < kOld ? 1'000'000'000'000 : 1'100'000'000'000;
    store->commit(batch);
  }
  feed(*store, {"u1"});
  Connection connection(options_);
  const auto read = [&] {
    RunLog log([&](const std::string&, const std::string& sql) { return connection.query(sql + " FORMAT RowBinary"); }, "u1");
    std::size_t reports = 0;
    engine::CommitBatch newest;
    log.read(
        {.run_uid = "u1", .name = "alpha", .overview = {}},
        [&](engine::CommitBatch&& batch) { reports += batch.reports.size(); }, newest);
    return std::pair(reports, log.gone());
  };
  EXPECT_EQ(read(), std::pair(std::size_t{48}, std::uint64_t{0}));
  for (std::size_t host = 0; host < connection.hosts(); ++host) {
    connection.execute_at(
        host, "ALTER TABLE payloads" + std::string(options_.sharded() ? "_local" : "") + " DROP PARTITION '2001-09-09'");
  }
  EXPECT_EQ(read(), std::pair(48 - kOld, std::uint64_t{kOld}));
}

// A wide model's reports are large: neither server holds many of them at once.
TEST_F(ClickHouseTest, ALogIsReadInPagesOfAboutTheSameSize) {
  constexpr std::uint64_t kReports = 700;
  constexpr std::size_t kBytes = 100'000;
  Connection connection(options_);
  prepare_tables(connection, options_);
  const std::uint64_t run = run_key("u1");
  const std::uint64_t none = 0;
  Block payloads(columns_of("payloads"));
  const std::string payload(kBytes, 'x');
  std::uint64_t pos = 0;
  for (std::uint64_t i = 0; i < kReports; ++i) {
    pos += i == kReports / 2 ? 1'000'000 : 1;  // what was between is gone
    add_row(payloads, run, pos, none, std::uint16_t{19'000}, std::uint32_t{0}, none, pos, std::uint32_t{1}, pos,
            std::int64_t{0}, payload, std::uint8_t{0});
  }
  connection.insert("payloads", payloads);
  Block marks(columns_of("batches"));
  add_row(marks, run, none, kNoRank, none, std::uint64_t{1}, pos, std::uint64_t{1}, pos, none, std::string("any"),
          std::int64_t{0});
  connection.insert("batches", marks);

  std::size_t all = 0;
  std::size_t largest = 0;
  RunLog log(
      [&](const std::string&, const std::string& sql) {
        std::string answer = connection.query(sql + " FORMAT RowBinary");
        all += answer.size();
        largest = std::max(largest, answer.size());
        return answer;
      },
      "u1");
  engine::CommitBatch newest;
  log.read(
      {}, [](engine::CommitBatch&&) {}, newest);
  EXPECT_GE(all, kReports * kBytes);
  EXPECT_LT(all, (kReports + 10) * kBytes) << "each once";
  EXPECT_LT(largest, std::size_t{40} << 20);
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
    writer.write_run(uid, term, 1000, 0, false);
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
        const std::uint64_t term = shared.claim("contended", std::to_string(server), 0);
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

}  // namespace
}  // namespace scalewatch::clickhouse

// Reports as received: what is stored of them, and what a server of before stored.
#include <random>
#include <string>

#include "server/history/clickhouse/byte_lanes.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

TEST(ByteLanes, AreEachEighthByteAndBack) {
  std::minstd_rand random(1);
  for (std::size_t size = 0; size < 300; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string lanes = to_lanes(bytes);
    std::string expected;
    const std::size_t whole = size - size % 8;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      for (std::size_t at = lane; at < whole; at += 8) expected += bytes[at];
    }
    expected += bytes.substr(whole);
    ASSERT_EQ(lanes, expected) << size;
    ASSERT_EQ(from_lanes(lanes), bytes) << size;
  }
}

// Tables of schema version 3, in which reports are as received; then newer reports of the same run. On one host, for they are
// made by hand.
TEST_F(ClickHouseTest, ReportsThatAServerOfBeforeStoredAreRead) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  TempDir half_dir;
  const auto half = history::SqliteStore::open(half_dir.path, by_hand());
  const auto commits = history::ranks_and_restarts(5);
  for (std::size_t i = 0; i < commits.size(); ++i) {
    store->commit(commits[i]);
    if (i < commits.size() / 2) half->commit(commits[i]);
  }
  feed(*half, {"u1"});
  query("DROP TABLE payloads");
  const std::string& columns = columns_of("payloads");
  const std::string before = columns.substr(0, columns.find(", lanes"));
  ASSERT_NE(before, columns);
  query("CREATE TABLE payloads (" + before + ") ENGINE = ReplacingMergeTree() PARTITION BY day ORDER BY (run, pos, term)");
  query("DROP TABLE schema_version");
  query("CREATE TABLE schema_version (version UInt32, made_ms Int64) ENGINE = ReplacingMergeTree() ORDER BY version");
  query("INSERT INTO schema_version VALUES (3, 0)");
  Block plain(before);
  std::uint64_t last = 0;
  for (const auto& entry : history::read_all(*half, "u1")) {
    last = entry.report ? entry.report->pos : entry.input->pos;
    if (!entry.report) continue;
    const auto& row = *entry.report;
    add_row(plain, run_key("u1"), row.pos, std::uint64_t{0}, std::uint16_t{0}, row.rank, stream_key(row.incarnation), row.seq,
            row.segment, row.attempt, row.time_ms, row.payload);
  }
  Connection(options_).insert("payloads", plain);
  history::FeedState(*store).owned("u1", 0);
  history::FeedState(*store).sent({{"u1", last}}, {});
  feed(*store, {"u1"});
  EXPECT_EQ(query("SELECT countIf(lanes = 0), countIf(lanes = 1) > 0 FROM payloads"), std::to_string(plain.rows()) + "\t1\n");

  const auto expected = history::read_all(*store, "u1");
  TempDir there_dir;
  const auto there = history::SqliteStore::open(there_dir.path, by_hand());
  Shared shared(options_, clock_);
  ASSERT_TRUE(history::import_run(shared, "u1", 2, *there));
  const auto got = history::read_all(*there, "u1");
  ASSERT_EQ(got.size(), expected.size());
  Older older(options_);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!expected[i].report) continue;
    const auto& row = *expected[i].report;
    ASSERT_TRUE(got[i].report);
    EXPECT_EQ(got[i].report->payload, row.payload);
    history::OlderReport asked;
    asked.key = {row.rank, stream_key(row.incarnation), row.seq};
    asked.pos = row.pos;
    const auto found = older.payloads("u1", {asked});
    ASSERT_TRUE(found.contains(asked.key));
    EXPECT_EQ(found.at(asked.key), row.payload);
  }
}

}  // namespace
}  // namespace scalewatch::clickhouse

// Scores by hundreds of attempts: answers are made of them where they are, and are the store's all the same.
#include "server/history/clickhouse/tables.h"
#include "server/history/feed_state.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

constexpr std::uint64_t kAttempts = 2600;
constexpr std::uint32_t kFew = 12;  // tensors

// One rank with a report of every attempt; formats and scales change now and then.
std::vector<engine::CommitBatch> long_run() {
  std::mt19937 random(21);
  std::vector<engine::CommitBatch> batches(1);
  batches[0].runs = {history::run_row("u1", "alpha")};
  const auto stream = history::incarnation_row("u1", 0, 1);
  batches[0].incarnations = {stream};
  auto tensors = history::tensors();
  tensors.resize(kFew);
  batches[0].tables = {history::table_row(stream, tensors)};
  for (std::uint64_t attempt = 1; attempt <= kAttempts; ++attempt) {
    if (attempt % 64 == 1) batches.emplace_back();
    auto report = history::random_report(random, attempt, kFew);
    if (attempt % 700 < 50) report.mutable_blocks(0)->set_target(v1::DTYPE_BF16);
    batches.back().reports.push_back(history::row_of(stream, attempt, attempt, attempt, report));
  }
  return batches;
}

// Lists and pictures over ranges that begin and end within hundreds, within tens, and at their ends.
std::string pictures(history::SqliteStore& store, history::OlderHistory* older) {
  history::ApiLimits limits;
  limits.read_time = std::chrono::minutes(5);
  const auto api = history::make_history_api(store, limits, older);
  std::string all;
  for (const auto& [first, last] : {std::pair{0U, 0U}, {101U, 1200U}, {55U, 777U}, {96U, 104U}}) {
    for (int by = 0; v1::TopTensorsRequest::By_IsValid(by); ++by) {
      v1::TopTensorsRequest top;
      top.set_run("alpha");
      top.set_by(static_cast<v1::TopTensorsRequest::By>(by));
      top.set_limit(5);
      top.mutable_range()->set_first(first);
      top.mutable_range()->set_last(last);
      v1::TopTensorsResponse tops;
      auto status = api->top_tensors(top, tops);
      all += top.ShortDebugString() + " -> " + status.message + "\n" + tops.DebugString();
      for (const std::uint32_t columns : {3U, 100U}) {
        v1::GetHeatMapRequest map;
        map.set_run("alpha");
        map.set_by(top.by());
        map.set_max_tensors(4);
        map.set_max_columns(columns);
        *map.mutable_range() = top.range();
        v1::GetHeatMapResponse cells;
        status = api->get_heat_map(map, cells);
        all += map.ShortDebugString() + " -> " + status.message + "\n" + cells.DebugString();
      }
    }
  }
  return all;
}

class WideScores : public ClickHouseTest {
 protected:
  void SetUp() override {
    ClickHouseTest::SetUp();
    if (IsSkipped()) return;
    full_ = history::SqliteStore::open(full_dir_.path, by_hand());
    for (const auto& batch : long_run()) full_->commit(batch);
    expected_ = pictures(*full_, nullptr);
  }
  // Of a store that knows names only.
  std::string far_pictures() {
    TempDir dir;
    const auto far = names_only(dir);
    Older older(options_);
    return pictures(*far, &older);
  }
  // Leaves only these scores. Not where tables are spread over shards.
  void keep_scores(const std::string& where) {
    for (const std::string& statement :
         {std::string("CREATE TABLE kept AS scores"), "INSERT INTO kept SELECT * FROM scores WHERE " + where,
          std::string("DROP TABLE scores"), std::string("RENAME TABLE kept TO scores")}) {
      query(statement);
    }
  }

  TempDir full_dir_;
  std::unique_ptr<history::SqliteStore> full_;
  std::string expected_;
};

TEST_F(WideScores, AnswersAreThoseOfTheStore) {
  feed(*full_, {"u1"});
  history::expect_same(expected_, far_pictures(), "all in one batch");
}

// Batches end within a hundred, and each has its own rows of it.
TEST_F(WideScores, AHundredOfSeveralBatchesThatCameTwice) {
  feed(*full_, {"u1"}, 10'000);
  const std::string before = batches_there();
  full_->write(history::WriteClass::kCommit, [](history::Connection& writer) { writer.execute("DELETE FROM feed_runs"); });
  feed(*full_, {"u1"}, 7'000);
  EXPECT_NE(batches_there(), before) << "the second time did send rows";
  history::expect_same(expected_, far_pictures(), "sent twice in parts");
}

// Without them this would read the tens, which are not there.
TEST_F(WideScores, TensAreReadAtTheEdgesAlone) {
  feed(*full_, {"u1"});
  keep_scores("stat > 4");
  Older older(options_);
  history::OlderRange range{"u1", 1, 1, kAttempts, {}, {{1, kAttempts}}, false, {}};
  EXPECT_TRUE(older.scores(range, history::By::BY_HEADROOM, {}, 0, 0).empty());
  range.wide = older.cover(range).wide;
  ASSERT_EQ(range.wide.size(), 1U);
  EXPECT_EQ(range.wide[0].first, 1U);
  EXPECT_EQ(range.wide[0].last, kAttempts);
  for (const std::uint64_t width : {0U, 100U, 300U}) {
    EXPECT_FALSE(older.scores(range, history::By::BY_HEADROOM, {}, width == 0 ? 0 : 1, width).empty()) << width;
  }
  EXPECT_TRUE(older.scores(range, history::By::BY_HEADROOM, {}, 1, 110).empty()) << "no hundred lies in one cell";
  EXPECT_TRUE(older.scores(range, history::By::BY_HEADROOM, {}, 11, 100).empty());
  range.within = {{11, 90}, {101, 200}};
  const auto scores = older.scores(range, history::By::BY_HEADROOM, {}, 1, 100);
  EXPECT_FALSE(scores.empty());
  for (const auto& score : scores) EXPECT_EQ(score.cell, 1U);
}

// The first half is of a server that knew no hundreds.
TEST_F(WideScores, AnswersOverTablesOfVersionTwoStayTheSame) {
  constexpr std::uint64_t kHalf = 1240;
  TempDir half_dir;
  const auto half = history::SqliteStore::open(half_dir.path, by_hand());
  for (auto batch : long_run()) {
    std::erase_if(batch.reports, [](const auto& row) { return row.pos > kHalf; });
    half->commit(batch);
  }
  feed(*half, {"u1"});
  keep_scores("stat <= 4");
  query("ALTER TABLE reports DROP COLUMN wide_scores");
  query("DROP TABLE schema_version");
  query("CREATE TABLE schema_version (version UInt32, made_ms Int64) ENGINE = ReplacingMergeTree() ORDER BY version");
  query("INSERT INTO schema_version VALUES (2, 0)");
  history::FeedState(*full_).owned("u1", 0);
  history::FeedState(*full_).sent({{"u1", kHalf}}, {});
  feed(*full_, {"u1"}, 10'000);
  EXPECT_EQ(query("SELECT max(version) FROM schema_version"), std::to_string(kSchemaVersion) + "\n");
  EXPECT_EQ(query("SELECT min(attempt) FROM reports WHERE wide_scores > 0"), std::to_string(kHalf + 1) + "\n");
  EXPECT_NE(query("SELECT count() FROM scores WHERE stat > 4"), "0\n");
  history::expect_same(expected_, far_pictures(), "half of it without hundreds");
}

}  // namespace
}  // namespace scalewatch::clickhouse

// The heat map: the worst of each group of attempts, from rows and from chunks alike.
#include <cmath>

#include "server/history/heat_map.h"
#include "server/history/keys.h"
#include "server/history/maintenance.h"
#include "server/history/score_groups.h"
#include "tests/unit/history/api_fixture.h"
#include "tests/unit/history/questions.h"

namespace scalewatch::history {
namespace {

class HeatMap : public ApiTest {
 protected:
  v1::GetHeatMapResponse ask(const v1::GetHeatMapRequest& request) {
    v1::GetHeatMapResponse response;
    const auto status = api_->get_heat_map(request, response);
    EXPECT_TRUE(status.ok()) << status.message;
    return response;
  }
};

TEST_F(HeatMap, ShowsTheWorstOfEachColumnFromRowsAndFromChunks) {
  StoreOptions options;
  options.compaction.thread = false;
  store_.reset();
  store_ = SqliteStore::open(dir_.path, options);
  api_ = make_history_api(*store_);
  make_run({{{"a", v1::ROLE_GRADIENT, 2}, {"b", v1::ROLE_GRADIENT, 1}, {"c", v1::ROLE_GRADIENT, 0}}});
  for (std::uint64_t i = 1; i <= 300; ++i) {
    // "b" comes close to overflow at attempt 142; "c" is non-finite twice within one column.
    commit(streams_[0], i, report_of({{0, 1}, {1, i == 142 ? 32752.0F : 2.0F}, {2, 0.5F, i == 201 || i == 203 ? 3U : 0U}}));
  }
  v1::GetHeatMapRequest headroom;
  headroom.set_run("alpha");
  headroom.set_max_columns(30);
  headroom.set_max_tensors(2);
  v1::GetHeatMapRequest non_finite = headroom;
  non_finite.set_by(v1::TopTensorsRequest::BY_NON_FINITE);
  non_finite.set_tensor_contains("c");
  for (const bool chunks : {false, true}) {
    if (chunks) store_->compactor().run_now(true);
    const auto response = ask(headroom);
    EXPECT_EQ(response.column_attempts(), 10U);
    ASSERT_EQ(response.rows_size(), 2);  // the two with the least headroom, in forward order
    EXPECT_EQ(response.rows(0).info().name(), "b");
    EXPECT_EQ(response.rows(1).info().name(), "a");
    ASSERT_EQ(response.rows(0).cells_size(), 30);
    EXPECT_NEAR(response.rows(0).cells(14), 1, 1e-4);
    EXPECT_NEAR(response.rows(0).cells(13), std::log2(65504.0 / 2), 1e-4);
    EXPECT_NEAR(response.rows(1).cells(29), std::log2(65504.0), 1e-4);
    const auto counts = ask(non_finite);
    ASSERT_EQ(counts.rows_size(), 1);
    EXPECT_EQ(counts.rows(0).cells(20), 6);
    EXPECT_TRUE(std::isnan(counts.rows(0).cells(19)));
  }
}

// Attempts jump, so that a stretch may end far beyond what is asked for: each column is looked at once, not each attempt.
TEST(HeatRow, EndsWhereThePictureDoes) {
  TensorSummary summary;
  summary.records = 2;
  summary.total.record.nan = 3;
  const HeatColumns columns{1, 1, 100};
  HeatRow row(v1::TopTensorsRequest::BY_NON_FINITE, columns);
  row.put({50, std::uint64_t{1} << 60U}, summary);
  EXPECT_TRUE(std::isnan(row.cells()[48]));
  EXPECT_FALSE(std::isnan(row.cells()[49]));
  EXPECT_FALSE(std::isnan(row.cells()[99]));
}

TEST(HeatColumns, AreWholeGroupsWhereTheyAreAsWideAsOne) {
  const auto is = [](std::uint64_t first, std::uint64_t last, std::size_t most) {
    const auto columns = heat_columns(first, last, most);
    EXPECT_LE(columns.count, most);
    EXPECT_LE(columns.first, first);
    EXPECT_LT(first, columns.first + columns.width);
    EXPECT_LT(last, columns.first + columns.width * columns.count);
    return std::vector<std::uint64_t>{columns.first, columns.width, columns.count};
  };
  using Shape = std::vector<std::uint64_t>;
  EXPECT_EQ(is(1, 10'000, 500), (Shape{1, 20, 500}));
  EXPECT_EQ(is(1, 300, 30), (Shape{1, 10, 30}));
  EXPECT_EQ(is(4, 303, 30), (Shape{1, 20, 16}));  // 31 groups
  EXPECT_EQ(is(4, 303, 31), (Shape{1, 10, 31}));
  EXPECT_EQ(is(4, 303, 50), (Shape{4, 6, 50}));
  EXPECT_EQ(is(7, 7, 100), (Shape{7, 1, 1}));
}

TEST(HeatColumns, OfManyAttemptsAreWholeHundreds) {
  for (const auto& [first, last] : {std::pair<std::uint64_t, std::uint64_t>{1, 20'001}, {355, 98'765}, {0, 1'000'000}}) {
    const HeatColumns columns = heat_columns(first, last, 100);
    EXPECT_EQ(columns.width % kWideAttempts, 0U);
    EXPECT_EQ(columns.first, first == 0 ? 0 : first / kWideAttempts * kWideAttempts + 1);
    EXPECT_LE(columns.count, 100U);
    EXPECT_GE(columns.first + columns.count * columns.width, last);
  }
  EXPECT_EQ(heat_columns(1, 19'000, 100).width, 190U);
}

TEST(GroupSplit, LeavesWhatIsNoWholeGroup) {
  const auto text = [](const std::vector<Interval>& intervals) {
    std::string all;
    for (const auto& one : intervals) all += std::to_string(one.first) + "-" + std::to_string(one.last) + " ";
    return all;
  };
  const auto tens = split_groups({{0, 9}, {11, 20}, {25, 61}, {70, 79}});
  EXPECT_EQ(text(tens.whole), "0-0 11-20 31-60 ");
  EXPECT_EQ(text(tens.edges), "1-9 25-30 61-61 70-79 ");
  const auto hundreds = split_groups({{11, 540}, {601, 699}}, kWideAttempts);
  EXPECT_EQ(text(hundreds.whole), "101-500 ");
  EXPECT_EQ(text(hundreds.edges), "11-100 501-540 601-699 ");
  EXPECT_EQ(text(common({{1, 10}, {20, 90}}, {{5, 6}, {9, 30}, {80, 100}})), "5-6 9-10 20-30 80-90 ");
}

TEST(Scores, AGroupHoldsTheWorstOfItsRecords) {
  Measured measured;
  measured.record.numel = 100;
  measured.record.min = -3;
  measured.record.max = 2;
  measured.record.sum_sq = 50;
  measured.target = DType::kFp16;
  measured.scale = 4;
  GroupScores group;
  group.add(measured);
  EXPECT_EQ(group.shown(By::BY_HEADROOM), -*score(By::BY_HEADROOM, measured));
  // Less headroom by another target, a larger magnitude under another scale, one subnormal, three non-finite.
  Measured small = measured;
  small.record.min = -2;
  small.target = DType::kE4m3fn;
  small.scale = 0.5;
  small.record.subnormal = 1;
  small.record.nan = 2;
  small.record.pos_inf = 1;
  group.add(small);
  Measured empty;
  empty.record.nan = empty.record.numel = 7;
  group.add(empty);
  EXPECT_EQ(group.shown(By::BY_HEADROOM), -*score(By::BY_HEADROOM, small));
  EXPECT_EQ(group.shown(By::BY_ABSMAX), 4);
  EXPECT_EQ(group.shown(By::BY_NORM), *score(By::BY_NORM, small));
  EXPECT_EQ(group.shown(By::BY_UNDERFLOW), *score(By::BY_UNDERFLOW, small));
  EXPECT_EQ(group.shown(By::BY_NON_FINITE), 10);
  EXPECT_TRUE(std::isnan(GroupScores().shown(By::BY_NORM)));
  EXPECT_TRUE(std::isnan(GroupScores().shown(By::BY_NON_FINITE)));

  std::string frame;
  write_scores(std::vector<GroupScores>{GroupScores(), group}, frame);
  std::vector<double> shown;
  for (int by = 0; by <= By::BY_NORM; ++by) {
    ASSERT_TRUE(read_scores(frame, 2, static_cast<By::By>(by), shown));
    EXPECT_TRUE(std::isnan(shown[0]));
    EXPECT_EQ(shown[1], group.shown(static_cast<By::By>(by))) << by;
  }
  EXPECT_FALSE(read_scores(frame, 3, By::BY_NORM, shown));
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string flipped = frame;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(read_scores(flipped, 2, By::BY_NORM, shown)) << "bit " << bit;
  }
}

// A run in chunks, and the file beside the server.
class ScoresOfAFile : public ::testing::Test {
 protected:
  ScoresOfAFile() {
    StoreOptions options;
    options.compaction.thread = false;
    store_ = SqliteStore::open(dir_.path, options);
    for (auto batch : one_rank(3, 400)) {
      std::erase_if(batch.reports, [](const auto& report) { return report.retrospective; });
      store_->commit(batch);
    }
    store_->compactor().run_now(true);
    file_ = std::make_unique<Connection>((dir_.path / "history.db").string(), SQLITE_OPEN_READWRITE);
  }
  std::string pictures() {
    const auto api = make_history_api(*store_);
    std::string all;
    for (int by = 0; by <= By::BY_NORM; ++by) {
      v1::GetHeatMapRequest request;
      request.set_run("alpha");
      request.set_by(static_cast<By::By>(by));
      request.set_max_columns(30);
      v1::GetHeatMapResponse response;
      EXPECT_TRUE(api->get_heat_map(request, response).ok());
      EXPECT_FALSE(response.truncated());
      EXPECT_EQ(response.column_attempts() % kGroupAttempts, 0U);
      all += response.DebugString();
    }
    return all;
  }
  Verified verify(bool repair) {
    store_.reset();
    file_.reset();
    return verify_folder(dir_.path, repair, [](double) { return true; });
  }

  TempDir dir_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<Connection> file_;
};

TEST_F(ScoresOfAFile, PicturesAreReadFromSummariesAndScoresAlone) {
  const std::string expected = pictures();
  file_->execute("UPDATE chunks SET frames = x''; DELETE FROM payloads");
  EXPECT_TRUE(pictures() == expected);
}

TEST_F(ScoresOfAFile, AFileOfAnOlderServerHasNoneAndShowsTheSame) {
  const std::string expected = pictures();
  file_->execute("DELETE FROM scores WHERE id % 3 <> 0");
  EXPECT_TRUE(pictures() == expected);
  file_->execute("DROP TRIGGER scores_go; DROP TABLE scores");
  store_.reset();
  store_ = SqliteStore::open(dir_.path);
  EXPECT_TRUE(pictures() == expected);
  EXPECT_EQ(verify(false).faults_found, 0U);
}

TEST_F(ScoresOfAFile, DamagedOnesAreNotShownAndMadeAnew) {
  const std::string expected = pictures();
  file_->execute(
      "UPDATE scores SET frames = substr(frames, 1, 90) || x'55' || substr(frames, 92) WHERE id % 1048576 = 1;"
      "UPDATE scores SET frames = x'' WHERE id % 1048576 = 4");
  EXPECT_TRUE(pictures() == expected);
  const auto found = verify(true);
  EXPECT_GT(found.faults_found, 1U);
  EXPECT_EQ(found.faults_left, 0U);
  EXPECT_NE(found.faults.front().what.find("the scores do not tell what the chunk holds"), std::string::npos);
  EXPECT_EQ(verify(false).faults_found, 0U);
}

TEST_F(ScoresOfAFile, GoWithTheirChunks) {
  const auto left = [&] { return file_->scalar("SELECT count(*) FROM scores"); };
  const std::int64_t all = left();
  file_->execute("DELETE FROM chunks WHERE id & 1048575 = 1");  // tensors 64 to 127
  EXPECT_EQ(left(), all - 4 * file_->scalar("SELECT count(*) FROM stretches"));
  EXPECT_EQ(file_->scalar("SELECT count(*) FROM scores WHERE id & 1048575 BETWEEN 4 AND 7"), 0);
  file_->execute("DELETE FROM chunks");
  EXPECT_EQ(left(), 0);
}

}  // namespace
}  // namespace scalewatch::history

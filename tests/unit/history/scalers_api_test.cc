// A scaler over attempts: every skip stays, whatever is merged.
#include "tests/unit/history/api_fixture.h"

namespace scalewatch::history {
namespace {

using ::testing::HasSubstr;

class ScalersApi : public ApiTest {
 protected:
  void observe(std::uint32_t rank, std::uint64_t attempt, const engine::ScalerRow& row,
               std::optional<double> loss = std::nullopt) {
    auto report = next_report(streams_[rank], attempt);
    report.scalers = {row};
    report.loss = loss;
    pending_.push_back(report);
  }
  v1::GetScalerHistoryResponse history(const v1::GetScalerHistoryRequest& request) {
    commit(std::move(pending_));
    pending_.clear();
    v1::GetScalerHistoryResponse response;
    const auto status = api_->get_scaler_history(request, response);
    EXPECT_TRUE(status.ok()) << status.message;
    return response;
  }
  void compact_by_hand() {
    StoreOptions options;
    options.compaction.thread = false;
    store_.reset();
    store_ = SqliteStore::open(dir_.path, options);
    api_ = make_history_api(*store_);
  }
  static v1::GetScalerHistoryRequest request() {
    v1::GetScalerHistoryRequest request;
    request.set_run("alpha");
    return request;
  }
  std::vector<engine::ReportRow> pending_;
};

TEST_F(ScalersApi, DownsamplingKeepsOneSkipTheExtremesAndTheNaNLoss) {
  make_run({{}});
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    const bool skip = i == 444;
    observe(0, i, scaler_row(skip ? 2 : 1, skip ? 65536 : 1024, skip ? 512 : 1024), i == 445 ? kNan : 0.5);
  }
  auto asked = request();
  asked.set_max_points(10);
  const auto response = history(asked);
  ASSERT_EQ(response.points_size(), 10);
  const auto& point = response.points(4);
  EXPECT_EQ(point.first_attempt(), 401U);
  EXPECT_EQ(point.last_attempt(), 500U);
  EXPECT_EQ(point.last_step(), 5000);
  EXPECT_EQ(point.skipped(), 1U);
  EXPECT_EQ(point.applied(), 99U);
  EXPECT_EQ(point.scale_before(), 1024);
  EXPECT_EQ(point.scale_min(), 512);
  EXPECT_EQ(point.scale_max(), 65536);
  EXPECT_EQ(point.non_finite_losses(), 1U);
  EXPECT_EQ(point.loss(), 0.5);
  EXPECT_EQ(point.growth_tracker(), 7U);
  EXPECT_EQ(history(request()).points_size(), 1000);
}

// Wide points are made of sums alone.
TEST_F(ScalersApi, WidePointsAreMadeOfSumsAndStillKeepOneSkip) {
  compact_by_hand();
  make_run({{}});
  for (std::uint64_t i = 1; i <= 4000; ++i) observe(0, i, scaler_row(i == 1444 ? 2 : 1, 1024, 1024), 0.5);
  auto asked = request();
  asked.set_max_points(10);
  history(asked);
  store_->compactor().run_now(true);
  // All that the sums hold is there once; only what lies before the first and behind the last is read attempt by attempt.
  Connection((dir_.path / "history.db").string(), SQLITE_OPEN_READWRITE)
      .execute("DELETE FROM scaler_rows WHERE attempt BETWEEN 64 AND 3900");
  const auto response = history(asked);
  ASSERT_EQ(response.points_size(), 9);  // of 7 sums each
  std::uint64_t next = 1;
  std::uint64_t skipped = 0;
  for (const auto& point : response.points()) {
    EXPECT_EQ(point.first_attempt(), next);
    EXPECT_EQ(point.applied() + point.skipped(), point.last_attempt() - next + 1);
    next = point.last_attempt() + 1;
    skipped += point.skipped();
  }
  EXPECT_EQ(next, 4001U);
  EXPECT_EQ(skipped, 1U);
}

// As of another engine, which has no sums.
TEST_F(ScalersApi, PointsAreTheSameWhetherTheyAreMadeOfSumsOrOfAttempts) {
  compact_by_hand();
  make_run({{}});
  for (std::uint64_t i = 1; i <= 4000; ++i) observe(0, i, scaler_row(i % 100 == 44 ? 2 : 1, 1024 + i, 2048 + i), 0.5);
  const auto told = [&] {
    std::string all;
    for (const std::uint64_t first : {1, 37, 64, 1000}) {
      for (const std::uint32_t most : {1, 3, 7, 10, 15, 100}) {
        auto asked = request();
        asked.set_max_points(most);
        asked.mutable_range()->set_first(first);
        const auto response = history(asked);
        EXPECT_LE(response.points_size(), static_cast<int>(most));
        all += asked.ShortDebugString() + " -> " + response.DebugString();
      }
    }
    return all;
  };
  const std::string of_attempts = told();
  store_->compactor().run_now(true);
  EXPECT_GT(Connection((dir_.path / "history.db").string(), SQLITE_OPEN_READONLY).scalar("SELECT count(*) FROM scaler_sums"),
            50);
  EXPECT_EQ(of_attempts, told());
}

TEST_F(ScalersApi, TheLowestRankSpeaksForEachAttempt) {
  make_run(std::vector<std::vector<Tensor>>(20));
  for (std::uint64_t attempt = 1; attempt <= 3; ++attempt) {
    for (std::uint32_t rank = attempt == 2 ? 1 : 0; rank < 20; ++rank)
      observe(rank, attempt, scaler_row(rank == 0 ? 1 : 3, rank, rank));
  }
  auto asked = request();
  auto response = history(asked);
  ASSERT_EQ(response.points_size(), 3);
  EXPECT_EQ(response.points(0).applied(), 1U);
  EXPECT_EQ(response.points(1).partial(), 1U);
  EXPECT_EQ(response.points(1).scale_after(), 1);
  asked.set_rank(19);
  response = history(asked);
  ASSERT_EQ(response.points_size(), 3);
  EXPECT_EQ(response.points(2).scale_before(), 19);
  asked.mutable_range()->set_first(2);
  asked.mutable_range()->set_last(2);
  EXPECT_EQ(history(asked).points_size(), 1);
}

TEST_F(ScalersApi, ARestartedRankReplacesAndDetailAddsNothing) {
  make_run({{}});
  observe(0, 1, scaler_row(2, 4, 2));
  auto restarted = incarnation_row("u1", 0, 2);
  engine::CommitBatch batch;
  batch.incarnations = {restarted};
  store_->commit(batch);
  commit(std::move(pending_));
  pending_ = {};
  auto again = next_report(restarted, 1);
  again.scalers = {scaler_row(1, 4, 4)};
  auto detail = next_report(restarted, 1);
  detail.retrospective = true;
  detail.scalers = {scaler_row(2, 1, 1)};
  commit({again, detail});
  const auto response = history(request());
  ASSERT_EQ(response.points_size(), 1);
  EXPECT_EQ(response.points(0).applied(), 1U);
  EXPECT_EQ(response.points(0).skipped(), 0U);
}

TEST_F(ScalersApi, UnknownScalersAndRunsWithoutOneAreTold) {
  make_run({{}});
  v1::GetScalerHistoryResponse response;
  auto status = api_->get_scaler_history(request(), response);
  EXPECT_EQ(status.code, engine::Status::kNotFound);
  EXPECT_THAT(status.message, HasSubstr("it reported none"));
  auto row = run_row("u1", "alpha");
  v1::GetRunResponse overview;
  overview.add_scalers()->set_name("default");
  row.overview = overview.SerializeAsString();
  engine::CommitBatch batch;
  batch.runs = {row};
  store_->commit(batch);
  EXPECT_EQ(history(request()).scaler().name(), "default");
  auto asked = request();
  asked.set_scaler(3);
  EXPECT_THAT(api_->get_scaler_history(asked, response).message, HasSubstr("has no scaler 3; it has 0 (default)"));
}

}  // namespace
}  // namespace scalewatch::history

// Tensors by RPC: one over attempts, all of an attempt, the leaders; over ranks, restarts, segments and limits.
#include <cmath>

#include "tests/unit/history/api_fixture.h"

namespace scalewatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorsApi : public ApiTest {
 protected:
  v1::GetTensorHistoryResponse history(const v1::GetTensorHistoryRequest& request) {
    v1::GetTensorHistoryResponse response;
    const auto status = api_->get_tensor_history(request, response);
    EXPECT_TRUE(status.ok()) << status.message;
    return response;
  }
  static v1::GetTensorHistoryRequest of(const std::string& tensor) {
    v1::GetTensorHistoryRequest request;
    request.set_run("alpha");
    request.set_tensor(tensor);
    return request;
  }
  v1::GetAttemptResponse attempt(const v1::GetAttemptRequest& request) {
    v1::GetAttemptResponse response;
    const auto status = api_->get_attempt(request, response);
    EXPECT_TRUE(status.ok()) << status.message;
    return response;
  }
  v1::TopTensorsResponse top(v1::TopTensorsRequest::By by) {
    v1::TopTensorsRequest request;
    request.set_run("alpha");
    request.set_by(by);
    v1::TopTensorsResponse response;
    const auto status = api_->top_tensors(request, response);
    EXPECT_TRUE(status.ok()) << status.message;
    return response;
  }
};

TEST_F(TensorsApi, DownsamplingKeepsOneNaNAndTheExtremes) {
  make_run({{{"w"}}});
  for (std::uint64_t i = 1; i <= 100; ++i) {
    Value value{0, 1};
    if (i == 37) value.nan = 1;
    if (i == 58) value.absmax = 32752;
    if (i == 91) value.absmax = 0.25F;
    commit(streams_[0], i, report_of({value}));
  }
  auto request = of("w");
  request.set_max_points(10);
  const auto response = history(request);
  ASSERT_EQ(response.points_size(), 10);
  EXPECT_FALSE(response.truncated());
  std::uint64_t nan = 0;
  std::uint64_t numel = 0;
  float largest = 0;
  float smallest = 1;
  double least = 100;
  std::uint32_t attempts = 0;
  for (const auto& point : response.points()) {
    nan += point.record().nan();
    numel += point.record().numel();
    attempts += point.attempts();
    largest = std::max(largest, point.record().absmax());
    smallest = std::min(smallest, point.record().absmin_nonzero());
    least = std::min(least, point.min_headroom());
  }
  EXPECT_EQ(nan, 1U);
  EXPECT_EQ(response.points(3).record().nan(), 1U);
  EXPECT_EQ(numel, 10'000U);
  EXPECT_EQ(attempts, 100U);
  EXPECT_FLOAT_EQ(largest, 32752);
  EXPECT_FLOAT_EQ(smallest, 0.0625F);
  EXPECT_NEAR(least, 1, 1e-9);
  EXPECT_EQ(response.points(9).first_attempt(), 91U);
  EXPECT_EQ(response.points(9).last_attempt(), 100U);
  request.set_max_points(0);
  EXPECT_EQ(history(request).points_size(), 100);
}

// Wide points are made of summaries alone: a file without its chunks answers the same.
TEST_F(TensorsApi, WidePointsAreMadeOfSummariesAndStillKeepOneNaNAndTheExtremes) {
  StoreOptions options;
  options.compaction.thread = false;
  store_.reset();
  store_ = SqliteStore::open(dir_.path, options);
  api_ = make_history_api(*store_);
  make_run({{{"w", v1::ROLE_GRADIENT, 0}}});
  std::vector<engine::ReportRow> rows;
  for (std::uint64_t i = 1; i <= 6000; ++i) {
    rows.push_back(next_report(streams_[0], i, report_of({{0, i == 1030 ? 4096.0F : 1.0F, i == 2050 ? 1U : 0U}})));
  }
  commit(std::move(rows));
  store_->compactor().run_now(true);
  v1::GetTensorHistoryRequest request;
  request.set_run("alpha");
  request.set_tensor("w");
  request.set_max_points(10);
  const auto check = [&] {
    v1::GetTensorHistoryResponse response;
    ASSERT_TRUE(api_->get_tensor_history(request, response).ok());
    ASSERT_EQ(response.points_size(), 10);
    std::uint64_t next = 1;
    std::uint64_t nan = 0;
    for (const auto& point : response.points()) {
      EXPECT_EQ(point.first_attempt(), next);
      EXPECT_EQ(point.attempts(), point.last_attempt() - point.first_attempt() + 1);
      next = point.last_attempt() + 1;
      nan += point.record().nan();
      const bool extreme = point.first_attempt() <= 1030 && 1030 < next;
      EXPECT_EQ(point.record().min(), extreme ? -4096 : -1);
      EXPECT_NEAR(point.min_headroom(), std::log2(65504.0) - (extreme ? 12 : 0), 1e-6);
    }
    EXPECT_EQ(next, 6001U);
    EXPECT_EQ(nan, 1U);
  };
  check();
  Connection((dir_.path / "history.db").string(), SQLITE_OPEN_READWRITE).execute("UPDATE chunks SET frames = x''");
  check();
}

TEST_F(TensorsApi, ShardsAddReplicasAreComparedAndOneRankCanBeAsked) {
  make_run({{{"w", v1::ROLE_GRADIENT, 0, "0/2"}}, {{"w", v1::ROLE_GRADIENT, 0, "1/2"}}, {{"w", v1::ROLE_GRADIENT, 0, "1/2"}}});
  commit({next_report(streams_[2], 1, report_of({{0, 9, 0, 7}})), next_report(streams_[0], 1, report_of({{0, 2}})),
          next_report(streams_[1], 1, report_of({{0, 4, 1}}))});
  auto request = of("w");
  auto response = history(request);
  ASSERT_EQ(response.points_size(), 1);
  const auto& record = response.points(0).record();
  EXPECT_EQ(record.numel(), 200U);
  EXPECT_EQ(record.nan(), 1U);
  EXPECT_EQ(record.pos_inf(), 7U);
  EXPECT_FLOAT_EQ(record.absmax(), 4);
  EXPECT_DOUBLE_EQ(record.sum(), 6);
  EXPECT_EQ(response.info().numel(), 200U);
  EXPECT_EQ(response.info().shard(), "");
  request.set_rank(2);
  response = history(request);
  EXPECT_FLOAT_EQ(response.points(0).record().absmax(), 9);
  request.set_rank(5);
  EXPECT_EQ(history(request).points_size(), 0);
}

TEST_F(TensorsApi, ARestartedRankReplacesTheAttemptsItRepeatsAlsoWithAnotherTable) {
  make_run({{{"w"}, {"v"}}});
  commit(streams_[0], 1, report_of({{0, 1}}));
  commit(streams_[0], 2, report_of({{0, 2, 3}}));
  auto restarted = incarnation_row("u1", 0, 2);
  engine::CommitBatch batch;
  batch.incarnations = {restarted};
  batch.tables = {table_row(restarted, {{"v"}, {"w"}})};
  store_->commit(batch);
  commit(restarted, 2, report_of({{1, 8}}));
  const auto response = history(of("w"));
  ASSERT_EQ(response.points_size(), 2);
  EXPECT_FLOAT_EQ(response.points(0).record().absmax(), 1);
  EXPECT_FLOAT_EQ(response.points(1).record().absmax(), 8);
  EXPECT_EQ(response.points(1).record().nan(), 0U);
}

TEST_F(TensorsApi, RetrospectiveDetailFillsOnlyWhatTheReportLeftOut) {
  make_run({{{"w"}, {"v"}}});
  auto detail = next_report(streams_[0], 1, report_of({{0, 99}, {1, 5}}));
  detail.retrospective = true;
  commit({detail, next_report(streams_[0], 1, report_of({{0, 1}}))});
  EXPECT_FLOAT_EQ(history(of("w")).points(0).record().absmax(), 1);
  EXPECT_FLOAT_EQ(history(of("v")).points(0).record().absmax(), 5);
  v1::GetAttemptRequest request;
  request.set_run("alpha");
  const auto response = attempt(request);
  EXPECT_THAT(response.attempt().ranks(), ElementsAre(0));
  ASSERT_EQ(response.tensors_size(), 2);
  EXPECT_FLOAT_EQ(response.tensors(0).record().absmax(), 5);  // "v" before "w"
  EXPECT_FLOAT_EQ(response.tensors(1).record().absmax(), 1);
}

TEST_F(TensorsApi, ATableThatGrowsIsSeen) {
  make_run({{{"a"}}});
  commit(streams_[0], 1, report_of({{0, 1}}));
  EXPECT_EQ(history(of("a")).points_size(), 1);
  engine::CommitBatch batch;
  batch.tables = {table_row(streams_[0], {{"b"}}, 2, 1)};
  store_->commit(batch);
  commit(streams_[0], 2, report_of({{1, 3}}));
  const auto response = history(of("b"));
  ASSERT_EQ(response.points_size(), 1);
  EXPECT_EQ(response.points(0).first_attempt(), 2U);
}

TEST_F(TensorsApi, TheReadLimitTruncatesAndSaysWhereToGoOn) {
  make_run({{{"w"}}});
  for (std::uint64_t i = 1; i <= 5; ++i) commit(streams_[0], i, report_of({{0, 1}}));
  ApiLimits limits;
  limits.read_time = std::chrono::milliseconds(0);
  api_ = make_history_api(*store_, limits);
  auto request = of("w");
  std::vector<std::uint64_t> attempts;
  for (;;) {
    const auto response = history(request);
    for (const auto& point : response.points()) attempts.push_back(point.first_attempt());
    if (!response.truncated()) break;
    request.mutable_range()->set_first(response.next_attempt());
  }
  EXPECT_THAT(attempts, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(TensorsApi, SegmentsAreApartAndTheNewestIsMeant) {
  make_run({{{"w"}}});
  commit(streams_[0], 1, report_of({{0, 1}}));
  auto row = run_row("u1", "alpha");
  row.segment = 2;
  auto second = incarnation_row("u1", 0, 5, 2);
  engine::CommitBatch batch;
  batch.runs = {row};
  batch.incarnations = {second};
  batch.tables = {table_row(second, {{"w"}})};
  store_->commit(batch);
  commit(second, 1, report_of({{0, 2}}));
  auto request = of("w");
  EXPECT_FLOAT_EQ(history(request).points(0).record().absmax(), 2);
  request.mutable_range()->set_segment(1);
  EXPECT_FLOAT_EQ(history(request).points(0).record().absmax(), 1);
  request.mutable_range()->set_segment(3);
  v1::GetTensorHistoryResponse response;
  const auto status = api_->get_tensor_history(request, response);
  EXPECT_EQ(status.code, engine::Status::kInvalidArgument);
  EXPECT_THAT(status.message, HasSubstr("range.segment: 3"));
}

TEST_F(TensorsApi, BadRequestsNameTheFieldAndUnknownTensorsTheNearest) {
  make_run({{{"layer.weight"}, {"layer.weight", v1::ROLE_PARAMETER}, {"head.bias"}}});
  v1::GetTensorHistoryResponse response;
  auto request = of("layer.weight");
  auto status = api_->get_tensor_history(request, response);
  EXPECT_EQ(status.code, engine::Status::kInvalidArgument);
  EXPECT_THAT(status.message, HasSubstr("role: "));
  request.set_role(v1::ROLE_PARAMETER);
  EXPECT_TRUE(api_->get_tensor_history(request, response).ok());
  request.set_max_points(10'001);
  EXPECT_THAT(api_->get_tensor_history(request, response).message, HasSubstr("max_points"));
  request = of("layer.weight");
  request.set_role(static_cast<v1::Role>(-1));
  status = api_->get_tensor_history(request, response);
  EXPECT_EQ(status.code, engine::Status::kNotFound);
  EXPECT_THAT(status.message, HasSubstr("is not a number -1; it is there as"));
  request = of("layer.wieght");
  status = api_->get_tensor_history(request, response);
  EXPECT_EQ(status.code, engine::Status::kNotFound);
  EXPECT_THAT(status.message, HasSubstr(R"(nearest: "layer.weight", "head.bias")"));
  request = of("head.bias");
  request.mutable_range()->set_first(5);
  request.mutable_range()->set_last(4);
  EXPECT_THAT(api_->get_tensor_history(request, response).message, HasSubstr("range: first (5)"));
  request.mutable_range()->set_last(0);
  EXPECT_TRUE(api_->get_tensor_history(request, response).ok());  // nothing stored there is no error
  EXPECT_EQ(response.points_size(), 0);
}

TEST_F(TensorsApi, AnAttemptIsTheNewestInForwardOrderInPages) {
  make_run({{{"last", v1::ROLE_GRADIENT, 9}, {"first", v1::ROLE_PARAMETER, 0}, {"first", v1::ROLE_GRADIENT, 0}}, {}});
  auto low = next_report(streams_[0], 4, report_of({{0, 1}, {1, 2}, {2, 3}}));
  low.scalers = {scaler_row(2, 8, 4), scaler_row(1, 2, 2, 1)};
  auto high = next_report(streams_[1], 4);
  high.loss = kNan;
  high.scalers = {scaler_row(1, 8, 8)};
  commit({next_report(streams_[0], 3), low, high});
  v1::GetAttemptRequest request;
  request.set_run("alpha");
  request.set_page_size(2);
  auto response = attempt(request);
  EXPECT_EQ(response.attempt().attempt(), 4U);
  EXPECT_EQ(response.attempt().step(), 40);
  EXPECT_THAT(response.attempt().ranks(), ElementsAre(0, 1));
  EXPECT_TRUE(std::isnan(response.attempt().loss()));
  ASSERT_EQ(response.attempt().scalers_size(), 2);
  EXPECT_EQ(response.attempt().scalers(0).skipped(), 1U);
  EXPECT_EQ(response.attempt().scalers(0).applied(), 0U);
  EXPECT_EQ(response.attempt().scalers(1).scaler(), 1U);
  ASSERT_EQ(response.tensors_size(), 2);
  EXPECT_EQ(response.tensors(0).info().role(), v1::ROLE_GRADIENT);
  EXPECT_THAT(response.tensors(0).ranks(), ElementsAre(0));
  EXPECT_EQ(response.tensors(1).info().name(), "first");
  commit(streams_[0], 5, {});  // the pages stay with the attempt they began with
  request.set_page_token(response.next_page_token());
  response = attempt(request);
  EXPECT_EQ(response.attempt().attempt(), 4U);
  ASSERT_EQ(response.tensors_size(), 1);
  EXPECT_EQ(response.tensors(0).info().name(), "last");
  EXPECT_EQ(response.next_page_token(), "");

  request.clear_page_token();
  request.set_attempt(4);
  request.set_rank(1);
  EXPECT_EQ(attempt(request).tensors_size(), 0);
  request.set_attempt(77);
  EXPECT_THAT(api_->get_attempt(request, response).message, HasSubstr("attempts 3 to 5 are stored"));
}

TEST_F(TensorsApi, TensorsAreListedWithTheirNewestRecord) {
  make_run({{{"b", v1::ROLE_GRADIENT, 1}, {"a", v1::ROLE_GRADIENT, 2}, {"never", v1::ROLE_PARAMETER, 0}},
            {{"a", v1::ROLE_GRADIENT, 2}}});
  commit(streams_[0], 1, report_of({{0, 5}, {1, 1}}));
  commit(streams_[0], 2, report_of({{1, 2}}));
  v1::ListTensorsRequest request;
  request.set_run("u1");
  v1::ListTensorsResponse response;
  ASSERT_TRUE(api_->list_tensors(request, response).ok());
  ASSERT_EQ(response.tensors_size(), 3);
  EXPECT_EQ(response.tensors(0).info().name(), "never");
  EXPECT_FALSE(response.tensors(0).has_last());
  EXPECT_EQ(response.tensors(1).last_attempt(), 1U);
  EXPECT_FLOAT_EQ(response.tensors(1).last().absmax(), 5);
  EXPECT_EQ(response.tensors(2).last_attempt(), 2U);
  EXPECT_EQ(response.tensors(2).ranks(), 2U);
  request.set_role(v1::ROLE_GRADIENT);
  request.set_page_size(1);
  ASSERT_TRUE(api_->list_tensors(request, response).ok());
  EXPECT_EQ(response.tensors(0).info().name(), "b");
  request.set_page_token(response.next_page_token());
  ASSERT_TRUE(api_->list_tensors(request, response).ok());
  EXPECT_EQ(response.tensors(0).info().name(), "a");
  EXPECT_EQ(response.next_page_token(), "");
}

TEST_F(TensorsApi, LeadersByEachStatistic) {
  make_run({{{"hot", v1::ROLE_GRADIENT, 0}, {"poor", v1::ROLE_GRADIENT, 1}, {"bad", v1::ROLE_GRADIENT, 2}}});
  commit(streams_[0], 1, report_of({{0, 60000}, {1, 0.5F, 0, 0, 30}, {2, 1, 2}}));
  commit(streams_[0], 2, report_of({{0, 30000}, {1, 0.5F, 0, 0, 60}, {2, 1, 0, 3}}));
  auto response = top(v1::TopTensorsRequest::BY_UNSPECIFIED);
  ASSERT_EQ(response.tensors_size(), 3);
  EXPECT_EQ(response.tensors(0).info().name(), "hot");
  EXPECT_NEAR(response.tensors(0).value(), std::log2(65504.0 / 60000), 1e-9);
  EXPECT_EQ(response.tensors(0).attempt(), 1U);
  EXPECT_EQ(response.range().first(), 1U);
  EXPECT_EQ(response.range().last(), 2U);
  EXPECT_EQ(top(v1::TopTensorsRequest::BY_ABSMAX).tensors(0).value(), 60000);
  response = top(v1::TopTensorsRequest::BY_UNDERFLOW);
  ASSERT_EQ(response.tensors_size(), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(response.tensors(0).value()), 0.6F);
  EXPECT_EQ(response.tensors(0).worst().subnormal(), 60U);
  response = top(v1::TopTensorsRequest::BY_NON_FINITE);
  ASSERT_EQ(response.tensors_size(), 1);
  EXPECT_EQ(response.tensors(0).value(), 5);
  EXPECT_EQ(response.tensors(0).attempt(), 0U);
  EXPECT_EQ(response.tensors(0).worst().pos_inf(), 3U);
  EXPECT_EQ(top(v1::TopTensorsRequest::BY_NORM).tensors(0).info().name(), "hot");
}

TEST_F(TensorsApi, ADamagedReportIsAnErrorThatNamesIt) {
  make_run({{{"w"}}});
  auto row = next_report(streams_[0], 1);
  row.payload = "\xff\xff\xff";
  commit({row});
  v1::GetTensorHistoryResponse response;
  const auto status = api_->get_tensor_history(of("w"), response);
  EXPECT_EQ(status.code, engine::Status::kInternal);
  EXPECT_THAT(status.message, HasSubstr("rank 0 for attempt 1"));
}

}  // namespace
}  // namespace scalewatch::history

// Attempts one after the other: gaps are walked over, summaries come without tensors; points tell their scales; a run tells its
// optimizers.
#include "server/engine/input_codec.h"
#include "tests/unit/history/api_fixture.h"

namespace scalewatch::history {
namespace {

using ::testing::ElementsAre;

class AttemptsApi : public ApiTest {
 protected:
  engine::Status get(const v1::GetAttemptRequest& request) { return api_->get_attempt(request, response_); }
  static v1::GetAttemptRequest from(std::uint64_t attempt) {
    v1::GetAttemptRequest request;
    request.set_run("alpha");
    request.set_attempt(attempt);
    request.set_or_next(true);
    return request;
  }
  v1::GetAttemptResponse response_;
};

TEST_F(AttemptsApi, OrNextWalksOverGapsToTheEnd) {
  make_run({{{"w"}}});
  for (const std::uint64_t attempt : {3U, 4U, 9U}) commit(streams_[0], attempt, report_of({{0, 1}}));
  std::vector<std::uint64_t> seen;
  auto request = from(1);
  while (get(request).ok()) {
    seen.push_back(response_.attempt().attempt());
    EXPECT_EQ(response_.tensors_size(), 1);
    request.set_attempt(seen.back() + 1);
  }
  EXPECT_THAT(seen, ElementsAre(3, 4, 9));
  EXPECT_EQ(get(request).code, engine::Status::kNotFound);
  for (const std::uint64_t attempt : {std::uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_EQ(get(from(attempt)).code, engine::Status::kNotFound) << attempt;
  }
  auto exact = from(5);
  exact.set_or_next(false);
  EXPECT_EQ(get(exact).code, engine::Status::kNotFound);
}

TEST_F(AttemptsApi, AllPagesOfAnAttemptAreOfTheAttemptThatTheFirstFound) {
  make_run({{{"a"}, {"b"}, {"c"}}});
  commit(streams_[0], 5, report_of({{0, 1}, {1, 2}, {2, 3}}));
  auto request = from(2);
  request.set_page_size(2);
  ASSERT_TRUE(get(request).ok());
  EXPECT_EQ(response_.tensors_size(), 2);
  request.set_page_token(response_.next_page_token());
  ASSERT_TRUE(get(request).ok());
  EXPECT_EQ(response_.attempt().attempt(), 5U);
  EXPECT_EQ(response_.tensors_size(), 1);
}

// Elements of one record, half in each of two octaves from `first` on.
void add_histogram(v1::Report& report, std::uint32_t index, int first, std::uint64_t elements) {
  auto& histogram = *report.mutable_blocks(0)->add_exponents();
  histogram.set_index(index);
  histogram.set_first_exponent(first);
  histogram.add_counts(elements / 2);
  histogram.add_counts(elements - elements / 2);
}

TEST_F(AttemptsApi, HistogramsOfShardsAddUpAndThoseOfReplicasDoNot) {
  StoreOptions options;
  options.compaction.thread = false;
  api_.reset();
  store_.reset();
  store_ = SqliteStore::open(dir_.path, options);
  api_ = make_history_api(*store_);
  make_run({{{"sharded", v1::ROLE_GRADIENT, 0, "0"}, {"copied", v1::ROLE_GRADIENT, 1}, {"partly", v1::ROLE_GRADIENT, 2, "0"}},
            {{"sharded", v1::ROLE_GRADIENT, 0, "1"}, {"copied", v1::ROLE_GRADIENT, 1}, {"partly", v1::ROLE_GRADIENT, 2, "1"}}});
  constexpr std::uint64_t kAttempts = 130;
  for (std::uint64_t attempt = 1; attempt <= kAttempts; ++attempt) {
    for (int rank = 0; rank < 2; ++rank) {
      auto report = report_of({{0, 1}, {1, 2}, {2, 3}}, 1024);
      if (attempt == 7) {
        add_histogram(report, 0, rank == 0 ? -3 : -2, 100);
        add_histogram(report, 1, 4, 100);
        if (rank == 0) add_histogram(report, 2, 0, 100);
      }
      commit(streams_[static_cast<std::size_t>(rank)], attempt, report);
    }
  }
  for (const bool in_chunks : {false, true}) {
    if (in_chunks) store_->compactor().run_now(true);
    auto request = from(7);
    ASSERT_TRUE(get(request).ok());
    for (const auto& tensor : response_.tensors()) EXPECT_FALSE(tensor.has_octaves()) << "nobody asked";
    request.set_octaves(true);
    ASSERT_TRUE(get(request).ok());
    ASSERT_EQ(response_.tensors_size(), 3);
    EXPECT_EQ(response_.tensors(0).octaves().first(), -3);
    EXPECT_THAT(response_.tensors(0).octaves().counts(), ElementsAre(50, 100, 50));
    EXPECT_EQ(response_.tensors(1).octaves().first(), 4);
    EXPECT_THAT(response_.tensors(1).octaves().counts(), ElementsAre(50, 50));
    EXPECT_FALSE(response_.tensors(2).has_octaves()) << "the other shard's is missing";
    request.set_attempt(8);
    ASSERT_TRUE(get(request).ok());
    for (const auto& tensor : response_.tensors()) EXPECT_FALSE(tensor.has_octaves());
  }
}

TEST_F(AttemptsApi, SummariesComeWithoutTensors) {
  make_run({{{"w"}}});
  auto row = next_report(streams_[0], 1, report_of({{0, 1}}));
  row.loss = 2.5;
  row.grad_norm = kNan;
  commit({row});
  auto request = from(0);
  request.set_summary_only(true);
  ASSERT_TRUE(get(request).ok());
  EXPECT_EQ(response_.tensors_size(), 0);
  EXPECT_TRUE(response_.next_page_token().empty());
  EXPECT_EQ(response_.attempt().loss(), 2.5);
  EXPECT_TRUE(std::isnan(response_.attempt().grad_norm()));
}

TEST_F(AttemptsApi, TellsWithoutWhomAnAttemptWasClosed) {
  make_run({{{"w"}}, {{"w"}}, {{"w"}}});
  const auto log = [&](const domain::Input& input, std::optional<std::uint32_t> segment = 1) {
    engine::CommitBatch batch;
    batch.inputs = {{"u1", ++pos_, engine::encode_input({input, {}, segment})}};
    store_->commit(batch);
  };
  const auto missing = [&](std::uint64_t attempt) {
    auto request = from(attempt);
    request.set_or_next(false);
    EXPECT_TRUE(get(request).ok()) << attempt;
    return std::vector<std::uint32_t>(response_.attempt().missing().begin(), response_.attempt().missing().end());
  };
  commit(streams_[0], 1, report_of({{0, 1}}));
  commit(streams_[0], 2, report_of({{0, 1}}));
  EXPECT_THAT(missing(1), ElementsAre()) << "it is open";
  log(domain::AttemptClosed{1, {1, 2}, 5});
  log(domain::AttemptClosed{2, {}, 6}, std::nullopt);  // an older server's
  commit(streams_[1], 1, report_of({{0, 1}}));         // too late
  commit(streams_[0], 4, report_of({{0, 1}}));
  log(domain::AttemptClosed{4, {2}, 7}, std::nullopt);
  commit(streams_[1], 3, report_of({{0, 1}}));  // all that there is of it is too late
  EXPECT_THAT(missing(1), ElementsAre(1, 2));
  EXPECT_THAT(response_.attempt().ranks(), ElementsAre(0, 1));
  EXPECT_THAT(missing(2), ElementsAre());
  EXPECT_THAT(missing(3), ElementsAre());
  EXPECT_THAT(missing(4), ElementsAre(2));
  commit(streams_[1], 4, report_of({{0, 1}}));  // had not joined, or was thought lost: nobody waited for it
  EXPECT_THAT(missing(4), ElementsAre(1, 2));

  log(domain::SegmentOpened{2, 8}, std::nullopt);
  commit(streams_[0], 5, report_of({{0, 1}}));  // of the segment before, which will not close any more
  log(domain::AttemptClosed{5, {1}, 9}, 2);
  EXPECT_THAT(missing(5), ElementsAre());
}

TEST_F(AttemptsApi, PointsTellTheScalesTheyWereStoredUnder) {
  make_run({{{"w"}}});
  for (std::uint64_t i = 1; i <= 4; ++i) commit(streams_[0], i, report_of({{0, 8}}, i < 3 ? 16 : 8));
  v1::GetTensorHistoryRequest request;
  request.set_run("alpha");
  request.set_tensor("w");
  request.mutable_range()->set_first(2);
  request.set_max_points(2);
  v1::GetTensorHistoryResponse response;
  ASSERT_TRUE(api_->get_tensor_history(request, response).ok());
  ASSERT_EQ(response.points_size(), 2);
  const auto& mixed = response.points(0);  // attempts 2 and 3
  EXPECT_EQ(mixed.scale_low(), 8);
  EXPECT_EQ(mixed.scale_high(), 16);
  EXPECT_EQ(mixed.record().measured_under_scale(), 1);
  EXPECT_FLOAT_EQ(mixed.record().absmax(), 1);
  EXPECT_EQ(response.points(1).scale_low(), 8);
  EXPECT_EQ(response.points(1).scale_high(), 8);
}

TEST_F(AttemptsApi, ARunTellsTheOptimizersOfItsLowestRanksNewestStart) {
  make_run({{{"w"}}, {{"w"}}});
  v1::Hello hello;
  auto& optimizer = *hello.add_optimizers();
  optimizer.set_class_name("AdamW");
  optimizer.set_eps(1e-8);
  optimizer.add_state_dtypes(v1::DTYPE_FP32);
  auto restarted = incarnation_row("u1", 0, 2);
  restarted.hello = hello.SerializeAsString();
  engine::CommitBatch batch;
  batch.incarnations = {restarted};
  store_->commit(batch);
  v1::GetRunRequest request;
  request.set_run("alpha");
  v1::GetRunResponse response;
  ASSERT_TRUE(api_->get_run(request, response).ok());
  ASSERT_EQ(response.optimizers_size(), 1);
  EXPECT_EQ(response.optimizers(0).class_name(), "AdamW");
  EXPECT_EQ(response.optimizers(0).eps(), 1e-8);
  EXPECT_FALSE(response.optimizers(0).has_weight_decay());
}

}  // namespace
}  // namespace scalewatch::history

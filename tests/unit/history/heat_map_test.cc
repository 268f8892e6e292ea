// The heat map: the worst of each group of attempts, from rows and from chunks alike.
#include <cmath>

#include "tests/unit/history/api_fixture.h"

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

}  // namespace
}  // namespace scalewatch::history

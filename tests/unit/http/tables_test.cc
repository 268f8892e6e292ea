#include "server/http/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/unit/http/fakes.h"

namespace scalewatch::http {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Attempts 1 to `newest`, of which every `every`-th is stored; attempt n was at 1'000'000 + 100 n ms.
struct StoredAttempts : FakeHistory {
  std::uint64_t newest = 1000;
  std::uint64_t every = 1;
  int reads = 0;
  v1::GetRunResponse run_response;
  v1::GetHeatMapResponse heat_map_response;
  v1::GetScalerHistoryResponse scaler_response;

  static std::int64_t time_of(std::uint64_t attempt) { return 1'000'000 + static_cast<std::int64_t>(100 * attempt); }

  engine::Status get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) override {
    ++reads;
    if (!status.ok()) return status;
    std::uint64_t attempt = request.attempt() == 0 ? newest : (request.attempt() + every - 1) / every * every;
    if (attempt > newest) return {engine::Status::kNotFound, "no such attempt"};
    response.mutable_attempt()->set_segment(3);
    response.mutable_attempt()->set_attempt(attempt);
    response.mutable_attempt()->set_time_ms(time_of(attempt));
    return {};
  }
  engine::Status get_run(const v1::GetRunRequest&, v1::GetRunResponse& response) override {
    response = run_response;
    return status;
  }
  engine::Status get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) override {
    heat_map_request = request;
    response = heat_map_response;
    return status;
  }
  engine::Status get_scaler_history(const v1::GetScalerHistoryRequest& request,
                                    v1::GetScalerHistoryResponse& response) override {
    scaler_request = request;
    response = scaler_response;
    return status;
  }
};

struct TablesTest : ::testing::Test {
  StoredAttempts history;
  bool ready = true;
  Router router{table_routes({[this]() -> engine::HistoryApi* { return ready ? &history : nullptr; }, {}})};

  Response get(const std::string& target) {
    const Request request{"GET", "/api/v1/table/" + target, {}, {}};
    Router::Match match = router.match(request);
    return match.route == nullptr ? match.error : match.route->handler({request, match.url, match.path});
  }
  Json rows(const std::string& target) {
    const Response response = get(target);
    EXPECT_EQ(response.status, 200u) << response.body;
    return Json::parse(response.body);
  }
};

TEST_F(TablesTest, RowsHaveTheTimesOfTheirAttempts) {
  for (const std::uint64_t attempt : {1U, 250U, 777U, 1000U}) {
    v1::ScalerPoint& point = *history.scaler_response.add_points();
    point.set_first_attempt(attempt);
    point.set_last_attempt(attempt);
    point.set_scale_after(attempt == 777 ? 2.0 : kNan);
    point.set_scale_max(4);
    point.set_skipped(attempt == 777 ? 1 : 0);
    point.set_loss(kNan);
  }
  const Json table = rows("runs/my%20run%2F1/scaler?scaler=2&max_points=5");
  EXPECT_EQ(history.scaler_request.run(), "my run/1");
  EXPECT_EQ(history.scaler_request.scaler(), 2u);
  EXPECT_EQ(history.scaler_request.range().segment(), 3u);  // the one whose times were read
  ASSERT_EQ(table.size(), 4u);
  for (const Json& row : table) {
    EXPECT_NEAR(row["time"].get<double>(), static_cast<double>(StoredAttempts::time_of(row["attempt"].get<std::uint64_t>())),
                1);
    EXPECT_TRUE(row["loss"].is_null());  // NaN
  }
  EXPECT_EQ(table[2]["scale"], 2.0);
  EXPECT_EQ(table[2]["skip_mark"], 4.0);
  EXPECT_TRUE(table[1]["skip_mark"].is_null());
  EXPECT_LT(history.reads, 40);  // for a thousand attempts
}

TEST_F(TablesTest, APeriodNarrowsTheAttempts) {
  // From between 41 and 42 until exactly 50.
  rows("runs/r/scaler?from=1004150&to=1005000");
  EXPECT_EQ(history.scaler_request.range().first(), 42u);
  EXPECT_EQ(history.scaler_request.range().last(), 50u);
  rows("runs/r/scaler?from=1004150&to=1005000&first=45&last=47");
  EXPECT_EQ(history.scaler_request.range().first(), 45u);
  EXPECT_EQ(history.scaler_request.range().last(), 47u);
  rows("runs/r/scaler?from=1&to=9999999");
  EXPECT_LE(history.scaler_request.range().first(), 1u);
  EXPECT_EQ(history.scaler_request.range().last(), 0u);  // to the end
  // Where only every 30th is stored, the bounds lie between stored ones.
  history.every = 30;
  history.newest = 990;
  rows("runs/r/scaler?from=1004150&to=1007000");
  EXPECT_GT(history.scaler_request.range().first(), 30u);
  EXPECT_LE(history.scaler_request.range().first(), 60u);
  EXPECT_GE(history.scaler_request.range().last(), 60u);
  EXPECT_LT(history.scaler_request.range().last(), 90u);
}

TEST_F(TablesTest, APeriodWithoutAttemptsIsEmpty) {
  history.scaler_response.add_points();
  EXPECT_EQ(rows("runs/r/scaler?from=1100001"), Json::array());  // after the last
  EXPECT_EQ(rows("runs/r/scaler?to=1000099"), Json::array());    // before the first
  EXPECT_EQ(rows("runs/r/scaler?from=1000101&to=1000150"), Json::array());
}

TEST_F(TablesTest, AHeatMapIsARowACellByTimeThenForward) {
  history.heat_map_response.mutable_range()->set_first(101);
  history.heat_map_response.set_column_attempts(10);
  const auto add = [&](const char* name, std::uint32_t place, std::initializer_list<float> cells) {
    v1::HeatMapRow& row = *history.heat_map_response.add_rows();
    row.mutable_info()->set_name(name);
    row.mutable_info()->set_role(v1::ROLE_ACTIVATION_GRADIENT);
    row.mutable_info()->set_forward_index(place);
    row.mutable_cells()->Add(cells.begin(), cells.end());
  };
  add("embed", 2, {1, std::numeric_limits<float>::quiet_NaN(), 3});
  add("head", 11, {4, 5, 6});
  const Json table = rows("runs/r/heatmap?by=headroom&role=activation_gradient&max_columns=3");
  EXPECT_EQ(history.heat_map_request.role(), v1::ROLE_ACTIVATION_GRADIENT);
  std::vector<Json> values;
  for (const Json& row : table) values.push_back(row["value"]);
  EXPECT_EQ(values, (std::vector<Json>{1.0, 4.0, nullptr, 5.0, 3.0, 6.0}));
  EXPECT_EQ(table[0]["row"], "0002 embed activation_gradient");
  EXPECT_EQ(table[1]["row"], "0011 head activation_gradient");  // as text these sort as they flow
  EXPECT_EQ(table[2]["first_attempt"], 111);
  EXPECT_EQ(table[2]["time"], StoredAttempts::time_of(111));
}

TEST_F(TablesTest, FindingsAreThoseOfThePeriod) {
  const auto add = [&](const char* rule, std::int64_t from, std::int64_t to, bool open) {
    v1::Finding& finding = *history.run_response.add_findings();
    finding.set_rule(rule);
    finding.set_severity(v1::SEVERITY_CRITICAL);
    finding.set_summary("a sentence");
    finding.set_first_time_ms(from);
    finding.set_last_time_ms(to);
    finding.set_open(open);
  };
  add("Early", 100, 200, false);
  add("Still", 150, 160, true);
  add("Late", 500, 600, false);
  const Json table = rows("runs/r/findings?from=300&to=400");
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0]["title"], "critical: Still");
  EXPECT_EQ(table[0]["tags"], "Still,critical");
  EXPECT_TRUE(table[0]["timeEnd"].is_null());  // it goes on
  EXPECT_TRUE(table[0]["rank"].is_null());
  EXPECT_EQ(rows("runs/r/findings").size(), 3u);
  EXPECT_EQ(rows("runs/r/findings?from=600")[1]["timeEnd"], 600);
}

TEST_F(TablesTest, RanksSayWhereTheyAre) {
  history.run_response.add_ranks()->set_connected(true);
  v1::RankSummary& gone = *history.run_response.add_ranks();
  gone.set_rank(1);
  gone.set_lost_reports(7);
  history.run_response.add_ranks()->set_said_goodbye(true);
  const Json table = rows("runs/r/ranks");
  EXPECT_EQ(table[0]["state"], "connected");
  EXPECT_EQ(table[1]["state"], "gone");
  EXPECT_EQ(table[1]["lost_reports"], 7);  // a number
  EXPECT_EQ(table[2]["state"], "finished");
}

TEST_F(TablesTest, ABusyHistoryIsAskedOnceMore) {
  struct Busy : StoredAttempts {
    int busy = 0;  // calls that are refused from now on
    int asked = 0;
    engine::Status get_scaler_history(const v1::GetScalerHistoryRequest& request,
                                      v1::GetScalerHistoryResponse& response) override {
      ++asked;
      if (busy == 0) return StoredAttempts::get_scaler_history(request, response);
      --busy;
      response.add_points();  // what a read that was cut off leaves
      return {engine::Status::kUnavailable, "history.db: took too long; try again"};
    }
  } history_that_is_busy;
  router = Router(table_routes({[&]() -> engine::HistoryApi* { return &history_that_is_busy; }, {}}));
  history_that_is_busy.busy = 1;
  EXPECT_EQ(rows("runs/r/scaler"), Json::array());
  EXPECT_EQ(history_that_is_busy.asked, 2);
  history_that_is_busy.busy = 2;
  EXPECT_EQ(get("runs/r/scaler").status, 503u);
  EXPECT_EQ(history_that_is_busy.asked, 4) << "no third time: the server may be overloaded";
}

// The look-ups of times too: each of them, the first and those in the middle.
TEST_F(TablesTest, TimesAreAskedForOnceMoreAndNeverGuessed) {
  struct Busy : StoredAttempts {
    int calls = 0;
    int busy_from = 0;  // calls that are refused: from this one on, from 1
    int busy = 0;       // so many of them
    engine::Status get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) override {
      ++calls;
      if (calls < busy_from || calls >= busy_from + busy) return StoredAttempts::get_attempt(request, response);
      return {engine::Status::kUnavailable, "history.db: took too long; try again"};
    }
  } history_that_is_busy;
  router = Router(table_routes({[&]() -> engine::HistoryApi* { return &history_that_is_busy; }, {}}));
  const std::string target = "runs/r/scaler?from=1020000&to=1060000";
  ASSERT_EQ(get(target).status, 200u);
  const v1::AttemptRange range = history_that_is_busy.scaler_request.range();
  const int calls = history_that_is_busy.calls;
  for (int call = 1; call <= calls; ++call) {
    history_that_is_busy.busy_from = call;
    history_that_is_busy.calls = 0;
    history_that_is_busy.busy = 1;
    EXPECT_EQ(get(target).status, 200u) << call;
    EXPECT_EQ(history_that_is_busy.scaler_request.range().first(), range.first()) << call;
    EXPECT_EQ(history_that_is_busy.scaler_request.range().last(), range.last()) << call;
    history_that_is_busy.calls = 0;
    history_that_is_busy.busy = 2;
    EXPECT_EQ(get(target).status, 503u) << call;
    EXPECT_EQ(history_that_is_busy.calls, call + 1) << "nothing more is asked then";
  }
}

TEST_F(TablesTest, WhatIsWrongIsSaid) {
  EXPECT_EQ(get("runs/r/scaler?from=yesterday").status, 400u);
  EXPECT_EQ(get("runs/r/scaler?from=-5").status, 400u);
  const Response unknown = get("runs/r/scaler?max_point=5");
  EXPECT_EQ(unknown.status, 400u);
  EXPECT_THAT(unknown.body, HasSubstr("max_point"));
  EXPECT_EQ(get("runs/r/nothing").status, 404u);
  history.status = {engine::Status::kNotFound, "no run is called r"};
  EXPECT_EQ(get("runs/r/scaler").status, 404u);
  EXPECT_EQ(get("runs/r/findings").status, 404u);
  ready = false;
  EXPECT_EQ(get("runs/r/heatmap").status, 503u);
}

}  // namespace
}  // namespace scalewatch::http

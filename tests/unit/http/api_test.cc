#include "server/http/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <nlohmann/json.hpp>

#include "tests/unit/http/fakes.h"

namespace scalewatch::http {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

struct ApiTest : ::testing::Test {
  FakeHistory history;
  FakeAlerts alerts;
  bool ready = true;
  Server server{[] {
                  Options options;
                  options.port = 0;
                  return options;
                }(),
                {[] { return std::string(); }, [] { return std::string(); }, [this] { return ready ? &history : nullptr; },
                 [this] { return ready ? &alerts : nullptr; }}};
  Client client{server.port()};
};

TEST_F(ApiTest, WhatAnAnswerMayLackIsToldBesideIt) {
  history.status.note = "some may be missing";
  EXPECT_THAT(client.get("/api/v1/runs").head, HasSubstr("scalewatch-note: some may be missing\r\n"));
  history.status = {.message = "of one that is ok"};
  EXPECT_THAT(client.get("/api/v1/runs").head, ::testing::Not(HasSubstr("scalewatch-note")));
}

TEST_F(ApiTest, EveryRouteReachesItsRpc) {
  EXPECT_EQ(client.get("/api/v1/runs?page_size=3&min_severity=warning").status, 200u);
  EXPECT_EQ(history.list_runs_request.page_size(), 3);
  EXPECT_EQ(history.list_runs_request.min_severity(), v1::SEVERITY_WARNING);

  EXPECT_EQ(client.get("/api/v1/runs/my%20run%2F1").status, 200u);
  EXPECT_EQ(history.get_run_request.run(), "my run/1");

  EXPECT_EQ(client.get("/api/v1/runs/r/tensors?role=gradient&name_contains=qkv").status, 200u);
  EXPECT_EQ(history.list_tensors_request.name_contains(), "qkv");

  EXPECT_EQ(
      client.get("/api/v1/runs/r/tensors/enc%2Flayer.0/history?role=gradient&rank=3&first=5&last=9&segment=2&max_points=50")
          .status,
      200u);
  EXPECT_EQ(history.history_request.tensor(), "enc/layer.0");
  EXPECT_EQ(history.history_request.rank(), 3u);
  EXPECT_EQ(history.history_request.range().last(), 9u);
  EXPECT_EQ(history.history_request.max_points(), 50u);

  EXPECT_EQ(client.get("/api/v1/runs/r/attempts/42").status, 200u);
  EXPECT_EQ(history.attempt_request.attempt(), 42u);

  EXPECT_EQ(client.get("/api/v1/runs/r/top?by=headroom&limit=5").status, 200u);
  EXPECT_EQ(history.top_request.by(), v1::TopTensorsRequest::BY_HEADROOM);

  EXPECT_EQ(client.get("/api/v1/runs/r/heatmap?by=non_finite&tensor_contains=qkv&first=5&max_columns=80").status, 200u);
  EXPECT_EQ(history.heat_map_request.tensor_contains(), "qkv");
  EXPECT_EQ(history.heat_map_request.range().first(), 5u);

  EXPECT_EQ(client.get("/api/v1/alerts/get?id=uid1%2FRule%2F%2F1.40").body.find("uid1/Rule//1.40") != std::string::npos, true);
  EXPECT_EQ(client.get("/api/v1/alerts/dead?sink=hook&page_size=5").status, 200u);
  EXPECT_EQ(alerts.letters_request.sink(), "hook");
  EXPECT_THAT(client.post("/api/v1/alerts/replay", R"({"key": "a/firing", "who": "ada"})").body, HasSubstr("\"replayed\":2"));
  EXPECT_EQ(alerts.replay_request.key(), "a/firing");
  EXPECT_EQ(client.get("/api/v1/silences?ended=true").status, 200u);
  EXPECT_TRUE(alerts.silences_request.ended());
  EXPECT_EQ(
      client.post("/api/v1/silences", R"({"matchers": ["run=\"a\""], "duration_ms": "60000", "who": "ada", "reason": "known"})")
          .status,
      200u);
  EXPECT_EQ(alerts.silence_request.matchers(0), "run=\"a\"");
  EXPECT_EQ(alerts.silence_request.duration_ms(), 60'000);
  EXPECT_EQ(client.post("/api/v1/silences/abc/end", R"({"who": "ada"})").status, 200u);
  EXPECT_EQ(alerts.end_request.id(), "abc");

  EXPECT_EQ(client.get("/api/v1/runs/r/scaler?scaler=1").status, 200u);
  EXPECT_EQ(history.scaler_request.scaler(), 1u);

  EXPECT_EQ(client.get("/api/v1/alerts?states=firing,resolved&run=r").status, 200u);
  EXPECT_EQ(alerts.list_request.states_size(), 2);
}

TEST_F(ApiTest, JsonKeepsNamesBigNumbersAndNaN) {
  v1::RunSummary& run = *history.list_runs_response.add_runs();
  run.set_name("a\"b\n");
  run.set_attempts(9'007'199'254'740'993);
  run.set_loss(std::numeric_limits<double>::quiet_NaN());
  const Reply reply = client.get("/api/v1/runs");
  EXPECT_TRUE(reply.has("content-type: application/json"));
  const Json json = Json::parse(reply.body).at("runs").at(0);
  EXPECT_EQ(json.at("name"), "a\"b\n");
  EXPECT_EQ(json.at("attempts"), "9007199254740993");
  EXPECT_EQ(json.at("loss"), "NaN");
  EXPECT_EQ(json.at("open_findings"), 0);  // no presence: always there
  EXPECT_EQ(json.at("worst_open"), "SEVERITY_UNSPECIFIED");
  EXPECT_FALSE(json.contains("scale"));  // optional and unset: absent
}

TEST_F(ApiTest, InfinityInARecord) {
  v1::Record& record = *history.history_response.add_points()->mutable_record();
  record.set_sum(-std::numeric_limits<double>::infinity());
  const Json json = Json::parse(client.get("/api/v1/runs/r/tensors/t/history").body);
  EXPECT_EQ(json.at("points").at(0).at("record").at("sum"), "-Infinity");
}

TEST_F(ApiTest, Acknowledges) {
  const std::string body = R"({"who":"kim","comment":"on it"})";
  const Reply encoded = client.post("/api/v1/alerts/uid%2FNonFiniteLoss%2F%2F1%2F7/acknowledge", body);
  EXPECT_EQ(encoded.status, 200u) << encoded.body;
  EXPECT_EQ(alerts.acknowledge_request.id(), "uid/NonFiniteLoss//1/7");
  EXPECT_EQ(alerts.acknowledge_request.who(), "kim");
  EXPECT_EQ(Json::parse(encoded.body).at("alert").at("id"), "uid/NonFiniteLoss//1/7");

  EXPECT_EQ(client.post("/api/v1/alerts/acknowledge?id=uid/x&who=lee", "").status, 200u);
  EXPECT_EQ(alerts.acknowledge_request.id(), "uid/x");
  EXPECT_EQ(alerts.acknowledge_request.who(), "lee");
}

TEST_F(ApiTest, RefusesBadPosts) {
  EXPECT_EQ(client.post("/api/v1/alerts/x/acknowledge", "{}", "text/plain").status, 415u);
  const Reply bad = client.post("/api/v1/alerts/x/acknowledge", R"({"whom":"kim"})");
  EXPECT_EQ(bad.status, 400u);
  EXPECT_THAT(bad.body, HasSubstr("whom"));
  const Reply get = client.get("/api/v1/alerts/x/acknowledge");
  EXPECT_EQ(get.status, 405u);
  EXPECT_TRUE(get.has("allow: post"));
}

TEST_F(ApiTest, BadParametersAreNamed) {
  for (const auto& [target, name] : std::vector<std::pair<std::string, std::string>>{
           {"/api/v1/runs?colour=red", "colour"},
           {"/api/v1/runs?page_size=many", "page_size"},
           {"/api/v1/runs/r/attempts/latest", "attempt"},
           {"/api/v1/runs/r/top?by=luck", "by"},
           {"/api/v1/runs/%FF", "run"},
       }) {
    const Reply reply = client.get(target);
    EXPECT_EQ(reply.status, 400u) << target;
    const Json json = Json::parse(reply.body);
    EXPECT_EQ(json.at("code"), 400);
    EXPECT_THAT(json.at("message").get<std::string>(), HasSubstr("parameter " + name)) << target;
  }
}

TEST_F(ApiTest, StatusesMapByCause) {
  using engine::Status;
  for (const auto& [code, http] : std::vector<std::pair<Status::Code, unsigned>>{{Status::kInvalidArgument, 400},
                                                                                 {Status::kNotFound, 404},
                                                                                 {Status::kFailedPrecondition, 409},
                                                                                 {Status::kResourceExhausted, 429},
                                                                                 {Status::kInternal, 500},
                                                                                 {Status::kUnavailable, 503}}) {
    history.status = {code, "no run \"x\"; nearest: \"y\""};
    const Reply reply = client.get("/api/v1/runs/x");
    EXPECT_EQ(reply.status, http);
    EXPECT_EQ(Json::parse(reply.body).at("message"), "no run \"x\"; nearest: \"y\"");
  }
}

TEST_F(ApiTest, NotReadyYet) {
  ready = false;
  EXPECT_EQ(client.get("/api/v1/runs").status, 503u);
  EXPECT_EQ(client.get("/api/v1/alerts").status, 503u);
}

}  // namespace
}  // namespace scalewatch::http

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "server/alerting/alertmanager_sink.h"
#include "server/alerting/webhook_sink.h"
#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using domain::Severity;
using nlohmann::json;
using testing::Contains;
using testing::StartsWith;

constexpr std::int64_t kNow = 1'700'000'060'000;

SinkConfig config(const std::string& type, const std::string& url) {
  SinkConfig out;
  out.name = type;
  out.type = type;
  out.url = url;
  return out;
}

domain::Finding blamed() {
  domain::Finding finding = sample_finding(Severity::kCritical);
  domain::Blame blame;
  blame.tensor = "layers.3.\"qkv\"\n\xC3\xA9";  // quotes, newline, non-ASCII
  blame.role = Role::kActivation;
  blame.kind = "nan";
  blame.where = "forward";
  blame.rank_of_origin = 2;
  blame.ranks = {2, 3};
  blame.nan = 7;
  finding.blame = blame;
  finding.evidence.push_back({"loss", std::numeric_limits<double>::quiet_NaN(), "", std::nullopt});
  return finding;
}

TEST(WebhookSink, BodyAsDocumented) {
  const WebhookSink sink(config("webhook", "http://h/hook"));
  const v1::Alert alert = sample_alert(Change::kOpened, blamed());
  const HttpRequest request = sink.request({alert, kFiring, "uid1/NonFiniteLoss//1/40/firing"}, kNow);
  EXPECT_EQ(request.url, "http://h/hook");
  EXPECT_THAT(request.headers, Contains("Idempotency-Key: uid1/NonFiniteLoss//1/40/firing"));
  EXPECT_THAT(request.headers, Contains(StartsWith("User-Agent: scalewatch/")));
  EXPECT_THAT(request.headers, Contains("Content-Type: application/json"));

  const json body = json::parse(request.body);
  EXPECT_EQ(body["version"], 1);
  EXPECT_EQ(body["key"], "uid1/NonFiniteLoss//1/40/firing");
  EXPECT_EQ(body["alert_id"], "uid1/NonFiniteLoss//1/40");
  EXPECT_EQ(body["transition"], "firing");
  EXPECT_EQ(body["state"], "firing");
  EXPECT_EQ(body["run"], "digits");
  EXPECT_EQ(body["labels"], json({{"team", "vision"}}));
  EXPECT_EQ(body["rule"], "NonFiniteLoss");
  EXPECT_EQ(body["severity"], "critical");
  EXPECT_EQ(body["where"]["tensor"], "layers.3.\"qkv\"\n\xC3\xA9");
  EXPECT_EQ(body["where"]["rank"], 2);
  EXPECT_EQ(body["where"]["ranks"], json({3}));
  EXPECT_EQ(body["since"], json({{"segment", 1}, {"attempt", 40}, {"step", 38}, {"time", "2023-11-14T22:13:20.000Z"}}));
  EXPECT_EQ(body["last"]["time"], "2023-11-14T22:13:21.500Z");
  EXPECT_TRUE(body["resolved_at"].is_null());
  EXPECT_EQ(body["evidence"][0], json({{"name", "in_a_row"}, {"value", 2.0}, {"unit", "attempts"}, {"limit", 2.0}}));
  EXPECT_EQ(body["evidence"][1]["value"], "NaN");
  EXPECT_EQ(body["advice"][0]["text"], "look at the data of step 38");
  EXPECT_EQ(body["blame"]["nan"], 7);
  EXPECT_EQ(body["blame"]["role"], "activation");
}

TEST(WebhookSink, WithoutBlameThereIsNoTensor) {
  const WebhookSink sink(config("webhook", "http://h/hook"));
  const v1::Alert alert = sample_alert(Change::kResolved, sample_finding(Severity::kWarning));
  const json body = json::parse(sink.request({alert, kResolved, "k"}, kNow).body);
  EXPECT_TRUE(body["where"]["tensor"].is_null());
  EXPECT_EQ(body["where"]["rank"], 3);
  EXPECT_TRUE(body["blame"].is_null());
  EXPECT_EQ(body["state"], "resolved");
  EXPECT_EQ(body["resolved_at"], "2023-11-14T22:13:21.500Z");
}

TEST(WebhookSink, HostileNamesGiveValidJsonAndNoExtraHeader) {
  SinkConfig with_headers = config("webhook", "http://h/hook");
  with_headers.headers = {{"X-Team", "a"}};
  const WebhookSink sink(with_headers);
  engine::RunContext run = sample_run();
  run.name = "a\"b\\\n\x01\xff\xC3\xA9";
  v1::Alert alert = sample_alert(Change::kOpened, sample_finding(Severity::kCritical));
  alert.set_run(run.name);
  const HttpRequest request = sink.request({alert, kFiring, "uid/\r\nX-Evil: 1/\xC3\xA9%"}, kNow);
  EXPECT_EQ(json::parse(request.body)["run"], "a\"b\\\n\x01\xEF\xBF\xBD\xC3\xA9");
  EXPECT_THAT(request.headers, Contains("Idempotency-Key: uid/%0D%0AX-Evil:%201/%C3%A9%25"));
  EXPECT_THAT(request.headers, Contains("X-Team: a"));
}

class AlertmanagerSinkTest : public testing::Test {
 protected:
  AlertmanagerSink sink_{config("alertmanager", "http://am:9093/prefix/")};
  json posted(const v1::Alert& alert, std::string_view transition) {
    const HttpRequest request = sink_.request({alert, transition, "k"}, kNow);
    EXPECT_EQ(request.url, "http://am:9093/prefix/api/v2/alerts");
    const json body = json::parse(request.body);
    // Alertmanager's postableAlerts: an array; labels required; only these fields, with these types.
    EXPECT_TRUE(body.is_array());
    for (const json& each : body) {
      EXPECT_TRUE(each.contains("labels"));
      for (const auto& [key, value] : each.items()) {
        if (key == "labels" || key == "annotations") {
          for (const auto& [name, text] : value.items()) {
            EXPECT_TRUE(text.is_string()) << name;
            EXPECT_THAT(name, testing::MatchesRegex("[a-zA-Z_][a-zA-Z0-9_]*"));
            EXPECT_NE(text, "") << name;
          }
        } else {
          EXPECT_THAT(key, testing::AnyOf("startsAt", "endsAt", "generatorURL"));
          EXPECT_TRUE(value.is_string());
        }
      }
      EXPECT_LE(each["startsAt"].get<std::string>(), each["endsAt"].get<std::string>());
    }
    return body;
  }
};

TEST_F(AlertmanagerSinkTest, FiringEndsByItselfWhenForgotten) {
  const json body = posted(sample_alert(Change::kOpened, blamed()), kFiring);
  ASSERT_EQ(body.size(), 1U);
  EXPECT_EQ(body[0]["labels"], json({{"alertname", "NonFiniteLoss"},
                                     {"run", "digits"},
                                     {"run_uid", "uid1"},
                                     {"severity", "critical"},
                                     {"team", "vision"}}));
  EXPECT_EQ(body[0]["startsAt"], "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(body[0]["endsAt"], "2023-11-14T22:19:20.000Z");  // five minutes after this try
  EXPECT_EQ(body[0]["annotations"]["summary"], "loss is NaN for 2 attempts in a row");
  EXPECT_EQ(body[0]["annotations"]["advice"], "look at the data of step 38");
}

TEST_F(AlertmanagerSinkTest, EscalationEndsTheAlertOfTheSeverityBelow) {
  const json body = posted(sample_alert(Change::kEscalated, sample_finding(Severity::kCritical)), "escalated:critical");
  ASSERT_EQ(body.size(), 2U);
  EXPECT_EQ(body[0]["labels"]["severity"], "critical");
  EXPECT_EQ(body[1]["labels"]["severity"], "warning");
  EXPECT_EQ(body[1]["endsAt"], "2023-11-14T22:13:21.500Z");
  json same = body[1]["labels"];
  same["severity"] = "critical";
  EXPECT_EQ(same, body[0]["labels"]);
}

TEST_F(AlertmanagerSinkTest, ResolveEndsIt) {
  const json body = posted(sample_alert(Change::kResolved, sample_finding(Severity::kCritical)), kResolved);
  ASSERT_EQ(body.size(), 1U);
  EXPECT_EQ(body[0]["endsAt"], "2023-11-14T22:13:21.500Z");
}

TEST_F(AlertmanagerSinkTest, RunLabelsNeverCollide) {
  v1::Alert alert = sample_alert(Change::kOpened, sample_finding(Severity::kCritical));
  auto& labels = *alert.mutable_labels();
  labels = {};
  labels["run"] = "mine";
  labels["label_run"] = "taken";
  labels["severity"] = "low";
  labels["a-b"] = "1";
  labels["a.b"] = "2";
  labels["a_b"] = "3";
  labels["9lives"] = "cat";
  labels["__meta"] = "x";
  labels["empty"] = "";
  labels["quote"] = "a\"b\n";
  const json as = posted(alert, kFiring)[0]["labels"];
  EXPECT_EQ(as["run"], "digits");
  EXPECT_EQ(as["severity"], "critical");
  EXPECT_EQ(as["label_run"], "taken");
  EXPECT_EQ(as["label_label_run"], "mine");
  EXPECT_EQ(as["label_severity"], "low");
  EXPECT_EQ(as["a_b"], "3");
  EXPECT_EQ(as["label_a_b"], "1");
  EXPECT_EQ(as["label_label_a_b"], "2");
  EXPECT_EQ(as["_9lives"], "cat");
  EXPECT_EQ(as["label__meta"], "x");
  EXPECT_EQ(as["quote"], "a\"b\n");
  EXPECT_FALSE(as.contains("empty"));
}

TEST_F(AlertmanagerSinkTest, LinksToTheRunWhenItsAddressIsKnown) {
  SinkConfig with_link = config("alertmanager", "http://am:9093");
  with_link.public_url = "https://watch.example.org/";
  const AlertmanagerSink sink(with_link);
  const std::vector<v1::Alert> alerts{sample_alert(Change::kOpened, sample_finding(Severity::kCritical))};
  const json body = json::parse(sink.reminder(alerts, kNow).body);
  EXPECT_EQ(body[0]["generatorURL"], "https://watch.example.org/api/v1/runs/uid1");
}

TEST(Sink, ClassifiesAnswers) {
  const WebhookSink sink(config("webhook", "http://h/"));
  const auto verdict = [&](int status) {
    HttpResponse response;
    response.status = status;
    return sink.classify(response);
  };
  for (const int status : {200, 202, 204}) EXPECT_EQ(verdict(status), Verdict::kDelivered) << status;
  for (const int status : {0, 408, 429, 500, 503}) EXPECT_EQ(verdict(status), Verdict::kRetry) << status;
  for (const int status : {301, 400, 401, 404}) EXPECT_EQ(verdict(status), Verdict::kRejected) << status;
}

TEST(Sink, FactoryByType) {
  EXPECT_NE(dynamic_cast<WebhookSink*>(make_sink(config("webhook", "http://h/")).get()), nullptr);
  EXPECT_EQ(make_sink(config("alertmanager", "http://h/"))->reminder_ms(), 60'000U);
  EXPECT_THROW(make_sink(config("carrier-pigeon", "http://h/")), std::invalid_argument);
}

}  // namespace
}  // namespace scalewatch::alerting

// The commands under `alerts`, against a server that says what a real one would.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "server/cli/client.h"
#include "server/cli/text/layout.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using grpc::ServerContext;
using grpc::Status;
using testing::HasSubstr;
using Json = nlohmann::json;

v1::Silence silence() {
  v1::Silence out;
  out.set_id("5e1f00d5");
  out.add_matchers("run=\"digits-hot\"");
  out.add_matchers("rule=~\"Scale.*\"");
  out.set_created_by("ada");
  out.set_reason("known, see the ticket");
  out.set_starts_ms(kNow - 60'000);
  out.set_ends_ms(kNow + 7'200'000);
  return out;
}

v1::Alert alert() {
  v1::Alert out = collapsing_run().alerts.alerts(0);
  out.set_state(v1::ALERT_STATE_SILENCED);
  *out.mutable_silence() = silence();
  (*out.mutable_labels())["team"] = "vision";
  out.set_runbook("https://books/NonFiniteApplied.md");
  v1::RankPlace& place = *out.add_places();
  place.set_rank(3);
  place.set_host("node-1");
  place.set_gpu_uuid("GPU-7");
  const auto trail = [&](std::int64_t ago_ms, v1::AlertState state, const char* who, const char* what) {
    v1::AlertTransition& entry = *out.add_trail();
    entry.set_time_ms(kNow - ago_ms);
    entry.set_state(state);
    entry.set_who(who);
    entry.set_what(what);
  };
  trail(40'000, v1::ALERT_STATE_FIRING, "", "opened as critical");
  trail(30'000, v1::ALERT_STATE_SILENCED, "ada", "silenced until tomorrow");
  for (const char* sink : {"pager", "webhook", "chat"}) {  // "chat" by a page of another alert
    v1::Page& page = *out.add_pages();
    page.set_sink(sink);
    page.set_severity(v1::SEVERITY_CRITICAL);
    page.set_time_ms(kNow - 39'000);
    page.set_pages(1);
  }
  v1::DeliveryStatus& delivered = *out.add_deliveries();
  delivered.set_sink("pager");
  delivered.set_transition("firing");
  delivered.set_delivered(true);
  return out;
}

v1::DeadLetter letter(int index) {
  v1::DeadLetter out;
  out.set_key("r-01/NonFiniteApplied//2/" + std::to_string(58 - index) + "/firing");
  out.set_sink("webhook");
  out.set_transition("firing");
  out.set_run("digits-hot");
  out.set_rule("NonFiniteApplied");
  out.set_summary("3 attempts with non-finite gradients were applied: the weights take what the gradients held");
  out.set_tries(60);
  out.set_last_error("HTTP 404: no such hook");
  out.set_given_up_ms(kNow - 3'600'000);
  return out;
}

class FakeAlerts final : public v1::Alerts::Service {
 public:
  Status GetAlert(ServerContext*, const v1::GetAlertRequest* request, v1::GetAlertResponse* response) override {
    if (request->id() != alert().id()) return {grpc::StatusCode::NOT_FOUND, "unknown alert '" + request->id() + "'"};
    *response->mutable_alert() = alert();
    return Status::OK;
  }
  Status CreateSilence(ServerContext*, const v1::CreateSilenceRequest* request, v1::CreateSilenceResponse* response) override {
    created = *request;
    *response->mutable_silence() = silence();
    response->set_alerts(2);
    return Status::OK;
  }
  Status ListSilences(ServerContext*, const v1::ListSilencesRequest* request, v1::ListSilencesResponse* response) override {
    *response->add_silences() = silence();
    if (!request->ended()) return Status::OK;
    v1::Silence& over = *response->add_silences();
    over = silence();
    over.set_ends_ms(kNow - 1000);
    over.set_ended_by("bob");
    return Status::OK;
  }
  Status EndSilence(ServerContext*, const v1::EndSilenceRequest* request, v1::EndSilenceResponse* response) override {
    if (request->id() != silence().id()) return {grpc::StatusCode::NOT_FOUND, "unknown silence"};
    *response->mutable_silence() = silence();
    response->mutable_silence()->set_ends_ms(kNow);
    response->mutable_silence()->set_ended_by(request->who());
    return Status::OK;
  }
  Status TestSinks(ServerContext*, const v1::TestSinksRequest*, v1::TestSinksResponse* response) override {
    v1::SinkTest& good = *response->add_sinks();
    good.set_sink("chat");
    good.set_type("slack");
    good.set_delivered(true);
    good.set_seconds(0.012);
    v1::SinkTest& bad = *response->add_sinks();
    bad.set_sink("pager");
    bad.set_type("pagerduty");
    bad.set_error("HTTP 400: (90 bytes, not shown)");
    return Status::OK;
  }
  Status ListDeadLetters(ServerContext*, const v1::ListDeadLettersRequest* request,
                         v1::ListDeadLettersResponse* response) override {
    listed = *request;
    const int from = request->page_token().empty() ? 0 : std::stoi(request->page_token());
    const int end = std::min({from + request->page_size(), from + 2, letters});
    for (int i = from; i < end; ++i) *response->add_letters() = letter(i);
    if (end < letters) response->set_next_page_token(std::to_string(end));
    return Status::OK;
  }
  Status ReplayDeadLetters(ServerContext*, const v1::ReplayDeadLettersRequest* request,
                           v1::ReplayDeadLettersResponse* response) override {
    replayed = *request;
    if (request->sink() == "nobody") return {grpc::StatusCode::NOT_FOUND, "no dead letter matches"};
    response->set_replayed(3);
    return Status::OK;
  }

  int letters = 1;
  v1::CreateSilenceRequest created;
  v1::ListDeadLettersRequest listed;
  v1::ReplayDeadLettersRequest replayed;
};

class AlertViews : public testing::Test {
 protected:
  AlertViews() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  std::string text(const std::vector<std::string>& arguments, int code = kExitOk) {
    const auto result = run_command("127.0.0.1:" + std::to_string(port_), arguments);
    EXPECT_EQ(result.code, code) << result.err;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(text::display_width(line), 80) << line;
    return result.out;
  }
  Json json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    return Json::parse(text_unbounded(arguments));
  }
  std::string text_unbounded(const std::vector<std::string>& arguments) {
    return run_command("127.0.0.1:" + std::to_string(port_), arguments).out;
  }

  FakeAlerts service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(AlertViews, Show) {
  expect_golden("alerts_show.txt", text_unbounded({"alerts", "show", alert().id()}));
  EXPECT_EQ(json({"alerts", "show", alert().id()})["alert"]["labels"]["team"], "vision");
  text({"alerts", "show", "nothing"}, kExitNothing);
}

TEST_F(AlertViews, Silences) {
  expect_golden("alerts_silences.txt", text({"alerts", "silences", "--all"}));
  EXPECT_THAT(text({"alerts", "silence", "run=digits-hot", "--for", "1h30m", "--reason", "known", "--by", "kim"}),
              HasSubstr("Open alerts that it silences now: 2"));
  EXPECT_EQ(service_.created.duration_ms(), 5'400'000);
  EXPECT_EQ(service_.created.who(), "kim");
  EXPECT_EQ(service_.created.matchers(0), "run=digits-hot");
  text({"alerts", "silence", "run=digits-hot", "--for", "soon", "--reason", "known"}, kExitUsage);
  EXPECT_THAT(text({"alerts", "unsilence", "5e1f00d5", "--by", "kim"}), HasSubstr("by kim"));
  text({"alerts", "unsilence", "other"}, kExitNothing);
}

TEST_F(AlertViews, Test) {
  expect_golden("alerts_test.txt", text({"alerts", "test"}, kExitWarning));
}

TEST_F(AlertViews, DeadLetters) {
  expect_golden("alerts_dead.txt", text({"alerts", "dead"}));
  service_.letters = 5;
  EXPECT_EQ(json({"alerts", "dead", "--sink", "webhook"})["letters"].size(), 5U);  // page after page
  EXPECT_EQ(service_.listed.sink(), "webhook");
  EXPECT_THAT(text({"alerts", "dead", "--limit", "3"}), HasSubstr("There are more than 3: see --limit."));
  text({"alerts", "dead", "--limit", "0"}, kExitUsage);
  service_.letters = 0;
  EXPECT_THAT(text({"alerts", "dead"}), HasSubstr("No dead letters"));
}

TEST_F(AlertViews, Replay) {
  EXPECT_THAT(text({"alerts", "replay", "webhook", "--by", "kim"}), HasSubstr("3 pages on the way again"));
  EXPECT_EQ(service_.replayed.sink(), "webhook");
  EXPECT_EQ(service_.replayed.key(), "");
  EXPECT_EQ(service_.replayed.who(), "kim");
  text({"alerts", "replay", letter(0).key()});
  EXPECT_EQ(service_.replayed.sink(), "");
  EXPECT_EQ(service_.replayed.key(), letter(0).key());
  EXPECT_EQ(json({"alerts", "replay"})["replayed"], 3);
  EXPECT_EQ(service_.replayed.sink() + service_.replayed.key(), "");
  text({"alerts", "replay", "nobody"}, kExitNothing);
  text({"alerts", "replay", ""}, kExitUsage);  // an empty variable of a script does not mean all
}

}  // namespace
}  // namespace scalewatch::cli

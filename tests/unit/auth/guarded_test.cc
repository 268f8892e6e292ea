// What a caller with patterns sees of the history and of the alerts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "server/auth/guarded_alerts.h"
#include "server/auth/guarded_history.h"
#include "server/auth/token.h"

namespace scalewatch::auth {
namespace {

using engine::Status;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs a1, b1, a2, b2, ... one a page, under the uids u-a1 and so on.
class FakeHistory final : public engine::HistoryApi {
 public:
  Status list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) override {
    const int page = request.page_token().empty() ? 0 : std::stoi(request.page_token());
    response.add_runs()->set_name(kRuns[page]);
    if (page < 3) response.set_next_page_token(std::to_string(page + 1));
    return {};
  }
  Status get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) override {
    if (request.run() == "a9") return {Status::kNotFound, "no run a9; did you mean b1?"};
    response.mutable_run()->set_name(request.run());
    return {};
  }
  Status list_tensors(const v1::ListTensorsRequest&, v1::ListTensorsResponse&) override { return {}; }
  Status get_tensor_history(const v1::GetTensorHistoryRequest&, v1::GetTensorHistoryResponse&) override { return {}; }
  Status get_attempt(const v1::GetAttemptRequest&, v1::GetAttemptResponse&) override { return {}; }
  Status top_tensors(const v1::TopTensorsRequest&, v1::TopTensorsResponse&) override { return {}; }
  Status get_scaler_history(const v1::GetScalerHistoryRequest&, v1::GetScalerHistoryResponse&) override { return {}; }
  Status get_heat_map(const v1::GetHeatMapRequest&, v1::GetHeatMapResponse&) override { return {}; }

 private:
  static constexpr const char* kRuns[] = {"b1", "b2", "a1", "b3"};
};

class FakeAlerts final : public engine::AlertsApi {
 public:
  Status list_alerts(const v1::ListAlertsRequest&, v1::ListAlertsResponse& response) override {
    for (const char* run : {"a1", "b1"}) {
      auto* alert = response.add_alerts();
      alert->set_run(run);
      alert->add_grouped()->set_run("b2");
    }
    return {};
  }
  Status get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) override {
    if (request.id() == "none") return {Status::kNotFound, "unknown alert"};
    response.mutable_alert()->set_run(request.id());
    return {};
  }
  Status acknowledge(const v1::AcknowledgeAlertRequest&, v1::AcknowledgeAlertResponse&) override { return changed(); }
  Status create_silence(const v1::CreateSilenceRequest&, v1::CreateSilenceResponse&) override { return changed(); }
  Status end_silence(const v1::EndSilenceRequest&, v1::EndSilenceResponse&) override { return changed(); }
  Status list_silences(const v1::ListSilencesRequest&, v1::ListSilencesResponse&) override { return {}; }
  Status test_sinks(const v1::TestSinksRequest&, v1::TestSinksResponse&) override { return changed(); }
  Status list_dead_letters(const v1::ListDeadLettersRequest&, v1::ListDeadLettersResponse&) override { return {}; }
  Status replay_dead_letters(const v1::ReplayDeadLettersRequest&, v1::ReplayDeadLettersResponse&) override { return changed(); }
  int changes = 0;

 private:
  Status changed() {
    ++changes;
    return {};
  }
};

Caller caller_with(const std::vector<std::string>& scopes) {
  TokenRecord record;
  record.id = "abcdefghijkl";
  for (const std::string& scope : scopes) EXPECT_TRUE(record.scopes.add(scope));
  return {std::make_shared<Token>(record), record.id, "10.0.0.7"};
}

std::string name_of(const std::string& run) {
  if (run.starts_with("u-")) return run.substr(2);
  return run == "a9" ? "" : run;
}

Status get(const Caller& caller, const std::string& run) {
  FakeHistory history;
  const NameOfRun find = name_of;
  v1::GetRunRequest request;
  request.set_run(run);
  v1::GetRunResponse response;
  return GuardedHistory(history, caller, find).get_run(request, response);
}

TEST(GuardedHistory, ShowsOnlyRunsThatThePatternsName) {
  const Caller caller = caller_with({"read:a*"});
  FakeHistory history;
  const NameOfRun find = name_of;
  GuardedHistory guarded(history, caller, find);
  v1::ListRunsResponse runs;
  ASSERT_TRUE(guarded.list_runs({}, runs).ok());
  ASSERT_EQ(runs.runs_size(), 1);
  EXPECT_EQ(runs.runs(0).name(), "a1");
  EXPECT_EQ(runs.next_page_token(), "3");

  std::string answer;
  ASSERT_TRUE(guarded.encode_runs({}, answer).ok());
  v1::ListRunsResponse encoded;
  ASSERT_TRUE(encoded.ParseFromString(answer));
  EXPECT_EQ(encoded.DebugString(), runs.DebugString());
  v1::GetAttemptRequest attempt;
  attempt.set_run("b1");
  EXPECT_EQ(guarded.encode_attempt(attempt, answer).code, Status::kPermissionDenied);

  EXPECT_TRUE(get(caller, "a1").ok());
  EXPECT_EQ(get(caller, "b1").code, Status::kPermissionDenied);
  EXPECT_EQ(get(caller, "u-b1").code, Status::kPermissionDenied);  // by its uid neither
  EXPECT_EQ(get(caller, "a9").code, Status::kNotFound);
  EXPECT_THAT(get(caller, "a9").message, Not(HasSubstr("b1")));  // no names of others
  EXPECT_THAT(get(caller_with({"read"}), "a9").message, HasSubstr("b1"));

  v1::TopTensorsRequest top;
  top.set_run("b1");
  v1::TopTensorsResponse tensors;
  EXPECT_EQ(guarded.top_tensors(top, tensors).code, Status::kPermissionDenied);
  const Caller sender = caller_with({"ingest"});
  EXPECT_EQ(GuardedHistory(history, sender, find).list_runs({}, runs).code, Status::kPermissionDenied);
}

class GuardedAlertsTest : public ::testing::Test {
 protected:
  template <class Request, class Response>
  Status ask(const std::vector<std::string>& scopes, Status (engine::AlertsApi::*function)(const Request&, Response&),
             const Request& request, Response& response) {
    const Caller caller = caller_with(scopes);
    return (GuardedAlerts(alerts_, gate_, caller, find_).*function)(request, response);
  }
  template <class Request, class Response>
  Status::Code code(const std::vector<std::string>& scopes, Status (engine::AlertsApi::*function)(const Request&, Response&),
                    const Request& request = {}) {
    Response response;
    return ask(scopes, function, request, response).code;
  }
  FakeAlerts alerts_;
  Gate gate_{GateOptions{}};
  const NameOfRun find_ = name_of;
};

TEST_F(GuardedAlertsTest, ShowsOnlyAlertsOfRunsThatMayBeRead) {
  v1::ListAlertsResponse response;
  ASSERT_TRUE(ask({"read:a*"}, &engine::AlertsApi::list_alerts, v1::ListAlertsRequest(), response).ok());
  ASSERT_EQ(response.alerts_size(), 1);
  EXPECT_EQ(response.alerts(0).run(), "a1");
  EXPECT_EQ(response.alerts(0).grouped_size(), 0);  // others' alerts that came in the same page
  v1::GetAlertRequest get;
  get.set_id("a1");
  EXPECT_EQ(code({"read:a*"}, &engine::AlertsApi::get_alert, get), Status::kOk);
  get.set_id("b1");
  EXPECT_EQ(code({"read:a*"}, &engine::AlertsApi::get_alert, get), Status::kPermissionDenied);
  get.set_id("none");
  EXPECT_EQ(code({"read:a*"}, &engine::AlertsApi::get_alert, get), Status::kPermissionDenied);
  EXPECT_EQ(code({"read"}, &engine::AlertsApi::get_alert, get), Status::kNotFound);
}

TEST_F(GuardedAlertsTest, ChangesTakeTheirScopes) {
  v1::AcknowledgeAlertRequest acknowledge;
  acknowledge.set_id("b1");
  EXPECT_EQ(code({"read"}, &engine::AlertsApi::acknowledge, acknowledge), Status::kPermissionDenied);
  EXPECT_EQ(code({"operate:a*"}, &engine::AlertsApi::acknowledge, acknowledge), Status::kPermissionDenied);
  EXPECT_EQ(code({"operate:a*"}, &engine::AlertsApi::create_silence), Status::kPermissionDenied);
  EXPECT_EQ(code({"operate:a*"}, &engine::AlertsApi::end_silence), Status::kPermissionDenied);
  EXPECT_EQ(code({"operate", "read"}, &engine::AlertsApi::test_sinks), Status::kPermissionDenied);
  EXPECT_EQ(code({"operate", "read"}, &engine::AlertsApi::replay_dead_letters), Status::kPermissionDenied);
  EXPECT_EQ(code({"operate", "read"}, &engine::AlertsApi::list_dead_letters), Status::kPermissionDenied);
  EXPECT_EQ(code({"ingest"}, &engine::AlertsApi::list_silences), Status::kPermissionDenied);
  EXPECT_EQ(alerts_.changes, 0);
  EXPECT_EQ(code({"operate:b*"}, &engine::AlertsApi::acknowledge, acknowledge), Status::kOk);
  EXPECT_EQ(code({"operate"}, &engine::AlertsApi::create_silence), Status::kOk);
  EXPECT_EQ(code({"admin"}, &engine::AlertsApi::test_sinks), Status::kOk);
  EXPECT_EQ(alerts_.changes, 3);
}

}  // namespace
}  // namespace scalewatch::auth

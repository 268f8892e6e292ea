#include "server/alerting/alerts_api.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <tuple>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "server/alerting/alerts_service.h"
#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {
namespace {

using domain::Severity;
using engine::Status;
using testing::ElementsAre;
using testing::HasSubstr;

class MemoryAlerts : public engine::AlertReader {
 public:
  std::vector<engine::AlertRow> rows;

  std::vector<engine::AlertRow> list(const Filter& filter, const std::optional<Cursor>& after, std::size_t limit) override {
    const auto order = [](std::int32_t severity, std::int64_t fired, const std::string& id) {
      return std::make_tuple(-severity, -fired, id);
    };
    std::sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
      return order(a.severity, a.fired_ms, a.id) < order(b.severity, b.fired_ms, b.id);
    });
    std::vector<engine::AlertRow> out;
    for (const auto& row : rows) {
      if (filter.run_uid && row.run_uid != *filter.run_uid) continue;
      if (row.severity < filter.min_severity) continue;
      if (!filter.states.empty() && std::count(filter.states.begin(), filter.states.end(), row.state) == 0) continue;
      if (after && order(row.severity, row.fired_ms, row.id) <= order(after->severity, after->fired_ms, after->id)) continue;
      if (out.size() < limit) out.push_back(row);
    }
    return out;
  }
  std::optional<engine::AlertRow> find(const std::string& id) override {
    for (const auto& row : rows) {
      if (row.id == id) return row;
    }
    return std::nullopt;
  }
  std::vector<v1::DeliveryStatus> deliveries(const std::string& id) override {
    v1::DeliveryStatus status;
    status.set_sink("pager");
    status.set_key(id + "/firing");
    std::vector<v1::DeliveryStatus> out = more_deliveries;
    out.push_back(status);
    return out;
  }
  std::vector<engine::SilenceRow> silences(std::int64_t, std::size_t) override { return {}; }
  std::vector<engine::AlertRow> fired_since(std::int64_t, std::size_t) override { return {}; }
  std::vector<engine::DeadLetterRow> dead_letters(const DeadLetters& which, std::size_t limit) override {
    std::vector<engine::DeadLetterRow> out;
    for (const auto& letter : letters) {
      if (!which.sink.empty() && letter.row.sink != which.sink) continue;
      if (!which.key.empty() && letter.row.key != which.key) continue;
      if (letter.given_up_ms < which.since_ms) continue;
      if (which.after && std::pair(letter.given_up_ms, letter.id) >= std::pair(which.after->given_up_ms, which.after->id))
        continue;
      if (out.size() < limit) out.push_back(letter);
    }
    return out;
  }
  std::vector<engine::DeadLetterRow> letters;  // newest first
  std::vector<v1::DeliveryStatus> more_deliveries;
};

class AlertsApiTest : public testing::Test {
 protected:
  AlertsApiTest() {
    for (const auto& [id, severity, state] :
         std::vector<std::tuple<std::string, Severity, v1::AlertState>>{{"a", Severity::kWarning, v1::ALERT_STATE_FIRING},
                                                                        {"b", Severity::kCritical, v1::ALERT_STATE_FIRING},
                                                                        {"c", Severity::kInfo, v1::ALERT_STATE_ACKNOWLEDGED},
                                                                        {"d", Severity::kCritical, v1::ALERT_STATE_RESOLVED}}) {
      domain::Finding finding = sample_finding(severity);
      finding.id = id;
      engine::CommitBatch batch;
      AlertBook({}, {}, clock_, nullptr).stage(sample_run(), {{domain::FindingEvent::Change::kOpened, finding}}, batch);
      batch.alerts[0].state = state;
      reader_.rows.push_back(batch.alerts[0]);
    }
  }

  static std::vector<std::string> ids(const v1::ListAlertsResponse& response) {
    std::vector<std::string> out;
    for (const auto& alert : response.alerts()) out.push_back(alert.id());
    return out;
  }
  v1::ListAlertsResponse listed(const v1::ListAlertsRequest& request) {
    v1::ListAlertsResponse response;
    const Status status = api_.list_alerts(request, response);
    EXPECT_TRUE(status.ok()) << status.message;
    return response;
  }

  TestClock clock_;
  AlertBook book_{{}, {}, clock_, nullptr};
  SinkTester tester_{{}, clock_};
  MemoryAlerts reader_;
  std::function<void(const std::string&, std::function<void(const Status&)>)> on_acknowledge_ =
      [](const auto&, const auto& done) { done({}); };
  StoredAlerts api_{
      reader_,
      [](const std::string& run) -> std::optional<engine::RunRow> {
        if (run != "digits" && run != "uid1") return std::nullopt;
        engine::RunRow row;
        row.run_uid = "uid1";
        return row;
      },
      [this](const std::string& id, const std::string&, const std::string&, auto done) { on_acknowledge_(id, done); },
      book_,
      tester_,
      std::chrono::milliseconds(50)};
};

TEST_F(AlertsApiTest, ListsOpenOnesWorstFirstWithDeliveries) {
  const auto response = listed({});
  EXPECT_THAT(ids(response), ElementsAre("uid1/b", "uid1/a", "uid1/c"));
  EXPECT_EQ(response.alerts(0).deliveries(0).key(), "uid1/b/firing");
  EXPECT_EQ(response.next_page_token(), "");
}

TEST_F(AlertsApiTest, PagesAndFilters) {
  v1::ListAlertsRequest request;
  request.set_page_size(2);
  request.add_states(v1::ALERT_STATE_FIRING);
  request.add_states(v1::ALERT_STATE_RESOLVED);
  request.set_run("digits");
  auto response = listed(request);
  EXPECT_THAT(ids(response), ElementsAre("uid1/b", "uid1/d"));
  request.set_page_token(response.next_page_token());
  response = listed(request);
  EXPECT_THAT(ids(response), ElementsAre("uid1/a"));
  EXPECT_EQ(response.next_page_token(), "");
  request.Clear();
  request.set_min_severity(v1::SEVERITY_WARNING);
  EXPECT_THAT(ids(listed(request)), ElementsAre("uid1/b", "uid1/a"));
}

TEST_F(AlertsApiTest, BadRequestsNameTheField) {
  const auto fault = [&](const auto& change) {
    v1::ListAlertsRequest request;
    change(request);
    v1::ListAlertsResponse response;
    return api_.list_alerts(request, response);
  };
  for (const int size : {-1, 1001}) {
    const Status status = fault([&](auto& request) { request.set_page_size(size); });
    EXPECT_EQ(status.code, Status::kInvalidArgument);
    EXPECT_THAT(status.message, HasSubstr("page_size"));
  }
  for (const char* token : {"x", "1.2", "1.2.", "1.99999999999999999999.a", "..a"}) {
    EXPECT_THAT(fault([&](auto& request) { request.set_page_token(token); }).message, HasSubstr("page_token")) << token;
  }
  EXPECT_THAT(fault([](auto& request) { request.add_states(v1::ALERT_STATE_UNSPECIFIED); }).message, HasSubstr("states"));
  EXPECT_EQ(fault([](auto& request) { request.set_run("nobody"); }).code, Status::kNotFound);
}

TEST_F(AlertsApiTest, ADamagedRowIsLeftOutOfListsAndSaidOfItself) {
  reader_.rows[0].alert = "\xff\xff no alert";
  const std::string broken = reader_.rows[0].id;
  EXPECT_EQ(listed({}).alerts_size(), 2);
  EXPECT_EQ(listed({}).alerts_size(), 2);
  EXPECT_EQ(book_.unreadable(), 1U);  // counted once
  v1::GetAlertRequest request;
  request.set_id(broken);
  v1::GetAlertResponse response;
  const Status status = api_.get_alert(request, response);
  EXPECT_EQ(status.code, Status::kInternal);
  EXPECT_THAT(status.message, HasSubstr("damaged"));
  std::size_t seen = 0;
  EXPECT_TRUE(api_.visit_open({}, [&](const v1::Alert&) { return ++seen > 0; }).ok());
  EXPECT_EQ(seen, 2U);
}

class DeadLettersTest : public AlertsApiTest {
 protected:
  DeadLettersTest() {
    book_.start(
        [this](engine::CommitBatch batch, const std::function<void()>& on_durable) {
          std::lock_guard lock(mutex_);
          updates_.insert(updates_.end(), batch.outbox_updates.begin(), batch.outbox_updates.end());
          on_durable();
        },
        nullptr);
    for (int i = 5; i > 0; --i) {
      engine::DeadLetterRow row;
      row.id = i;
      row.row = {.key = "uid1/a/firing",
                 .sink = "sink" + std::to_string(i),
                 .alert_id = "uid1/a",
                 .transition = "firing",
                 .created_ms = 1,
                 .alert = reader_.rows[0].alert};
      row.tries = 60;
      row.last_error = "given up after 60 tries: HTTP 404";
      row.given_up_ms = clock_.now - 1000;
      reader_.letters.push_back(row);
    }
    reader_.letters[4].row.alert = "\xff\xff";
    reader_.letters[3].given_up_ms = clock_.now - engine::kDeadLettersKeptMs - 1;  // forgotten
  }
  ~DeadLettersTest() override { book_.stop(); }

  v1::ReplayDeadLettersRequest request(const std::string& sink, const std::string& key = {}) {
    v1::ReplayDeadLettersRequest out;
    out.set_sink(sink);
    out.set_key(key);
    out.set_who("ada");
    return out;
  }

  std::mutex mutex_;
  std::vector<engine::OutboxUpdate> updates_;
};

TEST_F(DeadLettersTest, AreListedPageByPage) {
  std::vector<std::string> sinks;
  v1::ListDeadLettersRequest page;
  page.set_page_size(2);
  do {
    v1::ListDeadLettersResponse response;
    ASSERT_TRUE(api_.list_dead_letters(page, response).ok());
    for (const auto& letter : response.letters()) {
      sinks.push_back(letter.sink());
      EXPECT_EQ(letter.key(), "uid1/a/firing");
      EXPECT_EQ(letter.last_error(), "HTTP 404");
      EXPECT_EQ(letter.rule(), letter.sink() == "sink1" ? "" : "NonFiniteLoss");
    }
    page.set_page_token(response.next_page_token());
  } while (!page.page_token().empty());
  EXPECT_THAT(sinks, ElementsAre("sink5", "sink4", "sink3", "sink1"));
  v1::ListDeadLettersResponse response;
  page.set_page_token("x");
  EXPECT_EQ(api_.list_dead_letters(page, response).code, Status::kInvalidArgument);
  page.set_page_size(1001);
  EXPECT_EQ(api_.list_dead_letters(page, response).code, Status::kInvalidArgument);
}

TEST_F(DeadLettersTest, GoBackUnderTheirKeys) {
  v1::ReplayDeadLettersResponse response;
  ASSERT_TRUE(api_.replay_dead_letters(request("sink4"), response).ok());
  EXPECT_EQ(response.replayed(), 1U);
  {
    std::lock_guard lock(mutex_);
    ASSERT_EQ(updates_.size(), 1U);
    EXPECT_EQ(updates_[0].key, "uid1/a/firing");
    EXPECT_EQ(updates_[0].sink, "sink4");
    EXPECT_EQ(updates_[0].tries, 0U);
    EXPECT_EQ(updates_[0].next_try_ms, 0);
    EXPECT_EQ(updates_[0].given_up_ms, 0);
    EXPECT_FALSE(updates_[0].again);
    EXPECT_EQ(updates_[0].last_error, "sent again by ada");
  }
  EXPECT_EQ(api_.replay_dead_letters(request("nobody"), response).code, Status::kNotFound);
  EXPECT_EQ(api_.replay_dead_letters(request("", "uid1/b/firing"), response).code, Status::kNotFound);
  EXPECT_EQ(api_.replay_dead_letters({}, response).code, Status::kInvalidArgument);
  ASSERT_TRUE(api_.replay_dead_letters(request(""), response).ok());
  EXPECT_EQ(response.replayed(), 4U);
}

TEST_F(DeadLettersTest, AResolveThatWasTakenBeforeFollowsOnceMore) {
  v1::DeliveryStatus resolve;
  resolve.set_sink("sink5");
  resolve.set_transition("resolved");
  resolve.set_key("uid1/a/resolved");
  resolve.set_delivered(true);
  reader_.more_deliveries.push_back(resolve);
  v1::ReplayDeadLettersResponse response;
  ASSERT_TRUE(api_.replay_dead_letters(request("sink5"), response).ok());
  EXPECT_EQ(response.replayed(), 1U);
  std::lock_guard lock(mutex_);
  ASSERT_EQ(updates_.size(), 2U);
  EXPECT_EQ(updates_[1].key, "uid1/a/resolved");
  EXPECT_TRUE(updates_[1].again);
}

TEST_F(AlertsApiTest, AcknowledgesOrSaysWhyNot) {
  const auto acknowledge = [&](const std::string& id, const std::string& who, const std::string& comment = {}) {
    v1::AcknowledgeAlertRequest request;
    request.set_id(id);
    request.set_who(who);
    request.set_comment(comment);
    v1::AcknowledgeAlertResponse response;
    const Status status = api_.acknowledge(request, response);
    EXPECT_EQ(response.has_alert(), status.ok());
    return status;
  };
  EXPECT_TRUE(acknowledge("uid1/a", "on-call").ok());
  EXPECT_EQ(acknowledge("", "on-call").code, Status::kInvalidArgument);
  EXPECT_EQ(acknowledge("uid1/a", "").code, Status::kInvalidArgument);
  EXPECT_EQ(acknowledge("uid1/a", std::string(129, 'x')).code, Status::kInvalidArgument);
  EXPECT_EQ(acknowledge("uid1/a", "a\nb").code, Status::kInvalidArgument);
  EXPECT_EQ(acknowledge("uid1/a", "x", std::string(1025, 'x')).code, Status::kInvalidArgument);
  on_acknowledge_ = [](const auto&, const auto& done) {
    done({Status::kFailedPrecondition, "alert uid1/d is already resolved"});
  };
  EXPECT_EQ(acknowledge("uid1/d", "x").code, Status::kFailedPrecondition);
  on_acknowledge_ = [](const auto&, const auto& done) { done({Status::kNotFound, "unknown alert"}); };
  EXPECT_EQ(acknowledge("uid1/z", "x").code, Status::kNotFound);
  on_acknowledge_ = [](const auto&, const auto& done) { done({Status::kUnavailable, "try again later"}); };
  EXPECT_EQ(acknowledge("uid1/a", "x").code, Status::kUnavailable);
  std::function<void(const Status&)> late;
  on_acknowledge_ = [&](const auto&, const auto& done) { late = done; };
  EXPECT_EQ(acknowledge("uid1/a", "x").code, Status::kUnavailable);
  late({});  // harmless
}

class AlertsServiceTest : public AlertsApiTest {
 protected:
  AlertsServiceTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::Alerts::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials()));
  }
  ~AlertsServiceTest() override { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5)); }

  void publish(const std::string& id, Severity severity) {
    domain::Finding finding = sample_finding(severity);
    finding.id = id;
    feed_.publish(std::make_shared<const v1::Alert>(sample_alert(domain::FindingEvent::Change::kOpened, finding)));
  }

  engine::Feed<v1::Alert> feed_;
  int port_ = 0;
  std::unique_ptr<grpc::Service> service_ = make_alerts_service(api_, feed_, {.max_watchers = 1, .watcher_queue = 4});
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Alerts::Stub> stub_;
};

TEST_F(AlertsServiceTest, WatchTellsWhatIsOpenThenChangesUntilTheFeedCloses) {
  grpc::ClientContext context;
  v1::WatchAlertsRequest request;
  request.set_min_severity(v1::SEVERITY_WARNING);
  const auto reader = stub_->WatchAlerts(&context, request);
  v1::WatchAlertsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.alert().id(), "uid1/b");
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.alert().id(), "uid1/a");
  publish("low", Severity::kInfo);
  publish("new", Severity::kCritical);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.alert().id(), "uid1/new");
  feed_.close();
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(AlertsServiceTest, WatchersAreBoundedAndASeatIsFreedByCancelling) {
  grpc::ClientContext first_context;
  const auto first = stub_->WatchAlerts(&first_context, {});
  v1::WatchAlertsResponse response;
  ASSERT_TRUE(first->Read(&response));
  grpc::ClientContext second_context;
  const auto second = stub_->WatchAlerts(&second_context, {});
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(second->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  first_context.TryCancel();
  EXPECT_EQ(first->Finish().error_code(), grpc::StatusCode::CANCELLED);
  grpc::StatusCode code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  for (int i = 0; i < 200 && code == grpc::StatusCode::RESOURCE_EXHAUSTED; ++i) {
    grpc::ClientContext context;
    const auto again = stub_->WatchAlerts(&context, {});
    if (again->Read(&response)) context.TryCancel();
    code = again->Finish().error_code();
    if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(code, grpc::StatusCode::CANCELLED);
}

TEST_F(AlertsServiceTest, ErrorsKeepTheirCodes) {
  v1::ListAlertsRequest request;
  request.set_run("nobody");
  v1::ListAlertsResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->ListAlerts(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("'nobody'"));
}

}  // namespace
}  // namespace scalewatch::alerting

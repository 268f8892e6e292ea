// The gRPC service over a real connection: statuses pass through, tails deliver, are bounded and end.
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>

#include "scalewatch/v1/history.grpc.pb.h"
#include "server/history/history_service.h"
#include "tests/unit/history/api_fixture.h"

namespace scalewatch::history {
namespace {

using ::testing::HasSubstr;

class ServiceTest : public ApiTest {
 protected:
  ServiceTest() {
    make_run({{{"w"}}});
    ServiceOptions options;
    options.max_tails = 1;
    options.tail_capacity = 4;
    service_ = make_history_service(*api_, feed_, *store_, options);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::History::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  }
  ~ServiceTest() override {
    feed_.close();
    server_->Shutdown();
  }
  void publish(const std::string& uid, std::uint64_t attempt) {
    auto event = std::make_shared<engine::RunEvent>();
    event->run_uid = uid;
    event->event.mutable_attempt()->set_attempt(attempt);
    feed_.publish(event);
  }
  std::unique_ptr<grpc::ClientReader<v1::TailRunResponse>> tail(grpc::ClientContext& context, const std::string& run) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));  // only ends a test that is broken
    v1::TailRunRequest request;
    request.set_run(run);
    return stub_->TailRun(&context, request);
  }

  engine::Feed<engine::RunEvent> feed_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::History::Stub> stub_;
};

TEST_F(ServiceTest, AnswersAndErrorsAreThoseOfTheApi) {
  grpc::ClientContext good;
  v1::GetRunRequest request;
  v1::GetRunResponse response;
  request.set_run("alpha");
  ASSERT_TRUE(stub_->GetRun(&good, request, &response).ok());
  EXPECT_EQ(response.run().run_uid(), "u1");
  grpc::ClientContext bad;
  request.set_run("alpah");
  const auto status = stub_->GetRun(&bad, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("nearest: \"alpha\""));
}

TEST_F(ServiceTest, ListsThatAreSentEncodedAreThoseOfTheApi) {
  commit(streams_[0], 4, report_of({{0, 1}}));
  v1::ListRunsRequest runs;
  v1::ListRunsResponse sent;
  v1::ListRunsResponse expected;
  grpc::ClientContext first;
  ASSERT_TRUE(stub_->ListRuns(&first, runs, &sent).ok());
  ASSERT_TRUE(api_->list_runs(runs, expected).ok());
  EXPECT_EQ(sent.DebugString(), expected.DebugString());
  EXPECT_EQ(sent.runs_size(), 1);
  runs.set_name_contains("none");
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->ListRuns(&second, runs, &sent).ok());  // of no bytes at all
  EXPECT_EQ(sent.runs_size(), 0);

  v1::GetAttemptRequest attempt;
  attempt.set_run("alpha");
  v1::GetAttemptResponse sent_attempt;
  v1::GetAttemptResponse expected_attempt;
  grpc::ClientContext third;
  ASSERT_TRUE(stub_->GetAttempt(&third, attempt, &sent_attempt).ok());
  ASSERT_TRUE(api_->get_attempt(attempt, expected_attempt).ok());
  EXPECT_EQ(sent_attempt.DebugString(), expected_attempt.DebugString());
  EXPECT_EQ(sent_attempt.tensors_size(), 1);
  attempt.set_attempt(9);
  grpc::ClientContext fourth;
  const auto status = stub_->GetAttempt(&fourth, attempt, &sent_attempt);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("attempts 4 to 4 are stored"));
}

TEST_F(ServiceTest, HasAllMethodsOfTheContract) {
  const auto* service = v1::AttemptSummary::descriptor()->file()->FindServiceByName("History");
  ASSERT_NE(service, nullptr);
  const auto channel = server_->InProcessChannel({});
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* method = service->method(i);
    const std::string path = "/" + service->full_name() + "/" + method->name();
    const grpc::internal::RpcMethod call(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    v1::GetRunRequest request;  // a run that is not there, as far as it is asked for one
    request.set_run("nowhere");
    v1::GetRunResponse response;
    const auto status = grpc::internal::BlockingUnaryCall(channel.get(), call, &context, request, &response);
    EXPECT_NE(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
  }
}

TEST_F(ServiceTest, TailsGetTheirRunsEventsAndEndWithTheFeed) {
  grpc::ClientContext context;
  auto reader = tail(context, "alpha");
  reader->WaitForInitialMetadata();
  publish("u2", 1);
  publish("u1", 2);
  v1::TailRunResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.attempt().attempt(), 2U);

  grpc::ClientContext second;
  auto refused = tail(second, "alpha");
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  feed_.close();
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServiceTest, ATailEndsOnceItsRunIsFinished) {
  grpc::ClientContext context;
  auto reader = tail(context, "alpha");
  reader->WaitForInitialMetadata();
  engine::CommitBatch batch;
  batch.runs = {run_row("u1", "alpha")};
  batch.runs[0].status = v1::RUN_STATUS_FINISHED;
  store_->commit(batch);
  publish("u1", 3);
  v1::TailRunResponse message;
  ASSERT_TRUE(reader->Read(&message));  // what came last is told before
  EXPECT_EQ(message.attempt().attempt(), 3U);
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(ServiceTest, ATailOfAnUnknownRunIsToldAndACancelledOneFreesItsSeat) {
  grpc::ClientContext unknown;
  EXPECT_EQ(tail(unknown, "beta")->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext first;
  auto reader = tail(first, "u1");
  reader->WaitForInitialMetadata();
  first.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The server notices the cancellation within one wait; until then the seat is taken.
  for (;;) {
    grpc::ClientContext context;
    auto next = tail(context, "u1");
    next->WaitForInitialMetadata();
    publish("u1", 5);
    v1::TailRunResponse message;
    if (!next->Read(&message)) continue;
    EXPECT_EQ(message.attempt().attempt(), 5U);
    break;
  }
}

}  // namespace
}  // namespace scalewatch::history

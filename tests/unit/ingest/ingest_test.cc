// The Ingest service over a real connection.
#include "server/ingest/ingest_service.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "scalewatch/v1/ingest.grpc.pb.h"
#include "tests/unit/engine/fakes.h"

namespace scalewatch::ingest {
namespace {

using engine::testing::eventually;
using ::testing::HasSubstr;

class IngestTest : public ::testing::Test {
 protected:
  IngestTest() {
    service_ = make_ingest_service(*engine_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    builder.SetMaxReceiveMessageSize(1 << 20);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
    stub_ = v1::Ingest::NewStub(channel_);
  }
  ~IngestTest() override {
    engine_->stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  }

  // Messages as a client makes them, without a stream of its own.
  v1::ClientMessage hello_message() {
    v1::ClientMessage out;
    *out.mutable_hello() = client_.hello();
    return out;
  }
  v1::ClientMessage table_message() const {
    v1::ClientMessage out;
    for (int i = 0; i < 2; ++i) {
      auto* info = out.mutable_table()->add_infos();
      info->set_name("w" + std::to_string(i));
      info->set_role(v1::ROLE_GRADIENT);
    }
    return out;
  }
  v1::ClientMessage report_message(std::uint64_t seq) {
    v1::ClientMessage out;
    *out.mutable_report() = client_.report(seq);
    return out;
  }

  static engine::EngineOptions options() {
    engine::EngineOptions out;
    out.limits = engine::default_limits();
    out.commit_delay = std::chrono::milliseconds(1);
    return out;
  }

  engine::testing::MemoryStore store_;
  engine::testing::MemoryOutbox outbox_;
  engine::testing::ManualClock clock_;
  std::unique_ptr<engine::Engine> engine_ = std::make_unique<engine::Engine>(options(), store_, outbox_, clock_);
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Ingest::Stub> stub_;

  // Only for its messages; its own stream never says Hello.
  engine::testing::TestClient client_{*engine_, {}};
};

TEST_F(IngestTest, StreamsReportsAndEndsInOrder) {
  grpc::ClientContext context;
  auto stream = stub_->Stream(&context);
  ASSERT_TRUE(stream->Write(hello_message()));
  v1::ServerMessage answer;
  ASSERT_TRUE(stream->Read(&answer));
  ASSERT_TRUE(answer.has_hello_ack());
  EXPECT_FALSE(answer.hello_ack().run_uid().empty());
  stream->Write(table_message());
  constexpr std::uint64_t kReports = 500;
  for (std::uint64_t seq = 1; seq <= kReports; ++seq) ASSERT_TRUE(stream->Write(report_message(seq)));
  v1::ClientMessage bye;
  bye.mutable_goodbye()->set_reason("finished");
  ASSERT_TRUE(stream->Write(bye));
  std::uint64_t durable = 0;
  while (stream->Read(&answer)) durable = std::max(durable, answer.ack().durable_seq());
  EXPECT_EQ(durable, kReports);
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(store_.reports(), kReports);
}

TEST_F(IngestTest, AFaultComesAsAMessageAndAsTheStatus) {
  grpc::ClientContext context;
  auto stream = stub_->Stream(&context);
  ASSERT_TRUE(stream->Write(report_message(1)));
  v1::ServerMessage answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.fault().cause(), v1::FAULT_CAUSE_PROTOCOL);
  EXPECT_FALSE(stream->Read(&answer));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("must be a Hello"));
}

TEST_F(IngestTest, BytesThatDoNotParseAreAnsweredAndCostNobodyElse) {
  grpc::GenericStub generic(channel_);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  auto call = generic.PrepareCall(&context, "/scalewatch.v1.Ingest/Stream", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&tag);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  const grpc::Slice slice("\x0a\x04\x12\x02\xff\xfe");  // a Hello whose run name is not UTF-8
  call->Write(grpc::ByteBuffer(&slice, 1), &tag);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer fault;
  call->Read(&fault, &tag);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Status status;
  call->Finish(&status, &tag);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("does not parse"));
}

TEST_F(IngestTest, AFrameBeyondTheLimitEndsItsStreamOnly) {
  grpc::ClientContext context;
  auto stream = stub_->Stream(&context);
  v1::ClientMessage big = hello_message();
  big.mutable_hello()->set_job_id(std::string(2U << 20, 'x'));
  stream->Write(big);
  v1::ServerMessage answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  grpc::ClientContext next_context;
  auto next = stub_->Stream(&next_context);
  next->Write(hello_message());
  EXPECT_TRUE(next->Read(&answer));
  EXPECT_TRUE(answer.has_hello_ack());
  next_context.TryCancel();
}

TEST_F(IngestTest, ABrokenConnectionLeavesNoStreamBehind) {
  {
    grpc::ClientContext context;
    auto stream = stub_->Stream(&context);
    stream->Write(hello_message());
    v1::ServerMessage answer;
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(engine_->stats().streams_open, 2U);  // this one and the fixture's
    context.TryCancel();
    stream->Finish();
  }
  EXPECT_TRUE(eventually([&] { return engine_->stats().streams_open == 1; }));
}

TEST_F(IngestTest, AHalfClosedStreamEndsOk) {
  grpc::ClientContext context;
  auto stream = stub_->Stream(&context);
  stream->Write(hello_message());
  stream->WritesDone();
  v1::ServerMessage answer;
  while (stream->Read(&answer)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace scalewatch::ingest

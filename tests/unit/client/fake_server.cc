#include "tests/unit/client/fake_server.h"

#include <grpcpp/server_builder.h>

#include <utility>

namespace scalewatch::client_test {

FakeServer::FakeServer(Behaviour behaviour, int port) : behaviour_(std::move(behaviour)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() {
  stop();
}

void FakeServer::stop() {
  if (!server_) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void FakeServer::set(Behaviour behaviour) {
  const std::lock_guard lock(mutex_);
  behaviour_ = std::move(behaviour);
}

void FakeServer::say(v1::Directive directive) {
  const std::lock_guard lock(mutex_);
  say_ = std::move(directive);
}

FakeServer::Messages FakeServer::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

bool FakeServer::wait(const std::function<bool(const Messages&)>& condition) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return condition(messages_); });
}

std::vector<v1::Report> FakeServer::reports(std::size_t count) const {
  std::vector<v1::Report> found;
  wait([&](const Messages& messages) {
    found.clear();
    for (const auto& message : messages) {
      if (message.has_report()) found.push_back(message.report());
    }
    return found.size() >= count;
  });
  return found;
}

std::vector<v1::Hello> FakeServer::hellos() const {
  std::vector<v1::Hello> found;
  for (const auto& message : messages()) {
    if (message.has_hello()) found.push_back(message.hello());
  }
  return found;
}

std::vector<v1::Loss> FakeServer::losses() const {
  std::vector<v1::Loss> found;
  for (const auto& message : messages()) {
    if (message.has_loss()) found.push_back(message.loss());
  }
  return found;
}

grpc::Status FakeServer::Stream(grpc::ServerContext* /*context*/,
                                grpc::ServerReaderWriter<v1::ServerMessage, v1::ClientMessage>* stream) {
  v1::ClientMessage message;
  bool faulted = false;
  std::string incarnation;
  while (stream->Read(&message)) {
    v1::ServerMessage answer;
    std::optional<v1::ServerMessage> more;
    bool fatal = false;
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(message);
      if (message.has_hello()) {
        if (!behaviour_.refuse.ok()) {
          changed_.notify_all();
          return behaviour_.refuse;
        }
        incarnation = message.hello().incarnation();
      }
      const std::uint64_t seq = message.has_report() ? message.report().seq()
                                : message.has_loss() ? message.loss().last_seq()
                                                     : 0;
      if (message.has_hello() && behaviour_.hello_fault != v1::FAULT_CAUSE_UNSPECIFIED) {
        answer.mutable_fault()->set_cause(behaviour_.hello_fault);
        answer.mutable_fault()->set_server(behaviour_.moved_to);
        answer.mutable_fault()->set_message("refused by the test");
        fatal = true;
      } else if (message.has_hello() && behaviour_.greet) {
        v1::HelloAck& ack = *answer.mutable_hello_ack();
        ack.set_resume_after_seq(behaviour_.resume_after.value_or(durable_[incarnation]));
        ack.set_need_table(behaviour_.need_table);
        ack.mutable_limits()->set_max_message_bytes(behaviour_.max_message_bytes);
        ack.mutable_directives()->Add(behaviour_.directives.begin(), behaviour_.directives.end());
        if (behaviour_.stop_directive) more.emplace().mutable_directive()->set_stop(true);
      } else if (message.has_report() && behaviour_.report_fault != v1::FAULT_CAUSE_UNSPECIFIED && !faulted) {
        faulted = true;
        answer.mutable_fault()->set_cause(behaviour_.report_fault);
        answer.mutable_fault()->set_message("refused by the test");
        answer.mutable_fault()->set_seq(seq);
        fatal = behaviour_.report_fault != v1::FAULT_CAUSE_BAD_REPORT;
      } else if (seq != 0 && behaviour_.ack) {
        durable_[incarnation] = seq;
        answer.mutable_ack()->set_folded_seq(seq);
        answer.mutable_ack()->set_durable_seq(seq);
      }
      if (message.has_report() && say_) *more.emplace().mutable_directive() = *std::exchange(say_, std::nullopt);
    }
    changed_.notify_all();
    if (answer.kind_case() != v1::ServerMessage::KIND_NOT_SET) stream->Write(answer);
    if (more) stream->Write(*more);
    if (fatal) return {grpc::StatusCode::ABORTED, "refused by the test"};
    if (message.has_goodbye()) {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(behaviour_.loses_goodbye, false)) break;
      return {grpc::StatusCode::UNAVAILABLE, "the server is shutting down"};
    }
  }
  return grpc::Status::OK;
}

}  // namespace scalewatch::client_test

// An Ingest server inside the test, built on the generated code: records what it is sent and answers as it is told to.
#pragma once

#include <grpcpp/server.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "scalewatch/v1/ingest.grpc.pb.h"

namespace scalewatch::client_test {

struct Behaviour {
  bool ack = true;    // each report and loss is durable at once
  bool greet = true;  // false: Hello is never answered
  bool need_table = true;
  bool loses_goodbye = false;                                 // ends the stream as a server that goes away at the first one
  std::optional<std::uint64_t> resume_after;                  // default: the highest seq acknowledged
  std::uint32_t max_message_bytes = 0;                        // 0 = not said
  v1::FaultCause hello_fault = v1::FAULT_CAUSE_UNSPECIFIED;   // answer to Hello instead of HelloAck
  std::string moved_to = {};                                  // its server, with MOVED
  v1::FaultCause report_fault = v1::FAULT_CAUSE_UNSPECIFIED;  // answer to the first report of a stream
  bool stop_directive = false;                                // sent after HelloAck
  std::vector<v1::Directive> directives;                      // in HelloAck
  grpc::Status refuse = grpc::Status::OK;                     // another one: ends each stream before it is greeted
};

class FakeServer final : public v1::Ingest::Service {
 public:
  using Behaviour = client_test::Behaviour;

  explicit FakeServer(Behaviour behaviour = {}, int port = 0);
  ~FakeServer() override;

  // Breaks all streams and closes the port.
  void stop();
  void set(Behaviour behaviour);
  // Sends a directive with the answer to the next report.
  void say(v1::Directive directive);

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  using Messages = std::vector<v1::ClientMessage>;
  // What came so far, over all streams.
  [[nodiscard]] Messages messages() const;
  // Waits until what came satisfies the condition; false after 20 s.
  bool wait(const std::function<bool(const Messages&)>& condition) const;
  // Waits for so many reports and returns them.
  std::vector<v1::Report> reports(std::size_t count) const;
  // All of one kind so far.
  [[nodiscard]] std::vector<v1::Hello> hellos() const;
  [[nodiscard]] std::vector<v1::Loss> losses() const;

  grpc::Status Stream(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::ServerMessage, v1::ClientMessage>* stream) override;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Behaviour behaviour_;
  Messages messages_;
  std::map<std::string, std::uint64_t> durable_;  // by incarnation
  std::optional<v1::Directive> say_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace scalewatch::client_test

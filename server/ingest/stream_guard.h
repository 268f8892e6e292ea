// What the caller of one stream may send, and how much: checked before the engine sees it.
#pragma once

#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "scalewatch/v1/ingest.pb.h"
#include "server/auth/gate.h"

namespace scalewatch::ingest {

// How a stream ends. Without a fault the client comes back later; most faults stop it for good.
struct StreamEnd {
  std::optional<v1::Fault> fault;
  grpc::Status status;
};
StreamEnd denied(const std::string& why, grpc::StatusCode code = grpc::StatusCode::PERMISSION_DENIED);
StreamEnd try_later(const std::string& why);

class StreamGuard {
 public:
  // A rate is held by reading later; whoever is further ahead of it than this is told to come back later instead.
  static constexpr std::chrono::milliseconds kLongestWait{5000};

  // `gate` must outlive it. `end` is called from another thread, at most once and never after the destructor, when the caller
  // may not go on: its token was revoked, or lost this run, or no Hello came.
  StreamGuard(auth::Gate& gate, auth::Caller caller, auth::Permit place, std::function<void(const StreamEnd&)> end);

  // One message of so many bytes, before it is taken. Returns how the stream must end; nothing: take it. One thread at a time.
  std::optional<StreamEnd> check(const v1::ClientMessage& message, std::size_t bytes);
  // After check(): how long to wait before the next message is read.
  [[nodiscard]] std::chrono::milliseconds wait() const { return wait_; }
  // The engine ends the stream with this: counted where it is a limit of the server's own. What to end it with in place of the
  // fault, if anything. Any thread.
  std::optional<StreamEnd> ended(const v1::Fault& fault);
  // The client takes nothing of what it is sent.
  void note_slow_reader() { gate_.refused(auth::Refusal::kSlowReader); }

 private:
  std::optional<StreamEnd> greet(const v1::Hello& hello);
  std::optional<StreamEnd> charge(const v1::ClientMessage& message, std::size_t bytes);
  [[nodiscard]] bool may_go_on() const;
  [[nodiscard]] StreamEnd why_not() const;  // counts it
  StreamEnd later(auth::Refusal cause, const std::string& why);

  auth::Gate& gate_;
  const auth::Caller caller_;
  const auth::Permit place_;  // among all streams
  auth::Permit stream_;       // among the token's
  auth::Permit run_permit_;
  std::chrono::milliseconds wait_{0};
  std::atomic<bool> told_tensors_{false};
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::string run_;                         // empty until a Hello named it
  std::unique_ptr<auth::Gate::Hold> hold_;  // last: what it calls uses the rest
};

}  // namespace scalewatch::ingest

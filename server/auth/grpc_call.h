// Callers of gRPC: who they are, and the answer to a call that needs one. Header-only, for services.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/auth/gate.h"
#include "server/auth/peer.h"

namespace scalewatch::auth {

inline grpc::Status to_grpc(const engine::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code), status.message};
}

// The same with what the answer may lack beside it, in the trailing metadata kNote.
inline constexpr char kNote[] = "scalewatch-note";
inline grpc::Status to_grpc(const engine::Status& status, grpc::ServerContext& context) {
  if (!status.note.empty()) context.AddTrailingMetadata(kNote, status.note);
  return to_grpc(status);
}

// Of a call under way whose caller may not go on.
inline engine::Status lost(const Caller& caller) {
  if (!caller.known()) return {engine::Status::kUnauthenticated, "the token of this call was revoked or has expired"};
  return {engine::Status::kPermissionDenied, "the token of this call may not see this any more"};
}

// `Context`: a grpc::ServerContext or grpc::CallbackServerContext.
template <class Context>
Admission admit(Gate& gate, const Context& context) {
  const std::string peer = peer_of_grpc(context.peer());
  if (gate.open()) return gate.admit({}, peer);
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return gate.admit({}, peer);
  return gate.admit({found->second.data(), found->second.size()}, peer);
}

// Lets the caller in, counts it against its token's queries, and answers with what `work(caller)` returns. Without a gate, or
// with an open one, the caller is anybody.
template <class Work>
grpc::Status answer(Gate* gate, const grpc::ServerContext& context, const Work& work) {
  if (gate == nullptr) return work(Caller());
  const Admission admission = admit(*gate, context);
  if (!admission.ok()) return to_grpc(admission.status);
  Permit permit;
  if (admission.caller.token()) {
    permit = gate->take_query(admission.caller);
    if (!permit) return {grpc::StatusCode::RESOURCE_EXHAUSTED, kManyQueries};
  }
  grpc::Status status = work(admission.caller);
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) gate->refused(Refusal::kScope);
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) gate->refused(Refusal::kEnded);
  return status;
}

// Of a call that writes a stream of messages on a thread of its own: a reader who takes nothing for long holds that thread, so
// the call is cancelled. Used by that thread; outlives no write.
class SlowReader {
 public:
  SlowReader(Gate* gate, grpc::ServerContext& context) {
    if (gate == nullptr) return;
    patience_ = gate->options().reader_patience;
    hold_ = gate->hold([this] { return !late(); },
                       [gate, &context] {
                         gate->refused(Refusal::kSlowReader);
                         context.TryCancel();
                       });
  }
  template <class Writer, class Message>
  bool write(Writer& writer, const Message& message) {
    since_ = now();
    const bool written = writer.Write(message);
    since_ = kNotWriting;
    return written;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::int64_t kNotWriting = 0;

  static std::int64_t now() { return Clock::now().time_since_epoch() / std::chrono::milliseconds(1); }
  [[nodiscard]] bool late() const {
    const std::int64_t since = since_;
    return since != kNotWriting && now() - since > patience_.count();
  }

  std::chrono::milliseconds patience_{0};
  std::atomic<std::int64_t> since_{kNotWriting};
  std::unique_ptr<Gate::Hold> hold_;
};

}  // namespace scalewatch::auth

#include "server/ingest/stream_reactor.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <utility>

namespace scalewatch::ingest {

namespace {

constexpr const char* kDoesNotParse =
    "message does not parse as scalewatch.v1.ClientMessage: it is cut short, or a text in it is not valid UTF-8";
constexpr std::size_t kMaxQueued = 1024;  // messages that a client does not read; beyond it the stream ends

grpc::ByteBuffer bytes_of(const v1::ServerMessage& message) {
  const std::string text = message.SerializeAsString();
  const grpc::Slice slice(text);
  return {&slice, 1};
}

bool parse(grpc::ByteBuffer& bytes, v1::ClientMessage& message) {
  grpc::ProtoBufferReader reader(&bytes);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

grpc::StatusCode code_of(v1::FaultCause cause) {
  switch (cause) {
    case v1::FAULT_CAUSE_FENCED:
      return grpc::StatusCode::ABORTED;
    case v1::FAULT_CAUSE_BAD_HELLO:
    case v1::FAULT_CAUSE_BAD_TABLE:
    case v1::FAULT_CAUSE_BAD_REPORT:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case v1::FAULT_CAUSE_SEQ_GAP:
      return grpc::StatusCode::OUT_OF_RANGE;
    case v1::FAULT_CAUSE_LIMIT:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case v1::FAULT_CAUSE_SHUTTING_DOWN:
      return grpc::StatusCode::UNAVAILABLE;
    case v1::FAULT_CAUSE_PROTOCOL:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case v1::FAULT_CAUSE_DENIED:
      return grpc::StatusCode::PERMISSION_DENIED;
    default:
      return grpc::StatusCode::ABORTED;
  }
}

}  // namespace

grpc::Status status_of(const v1::Fault& fault) {
  return {code_of(fault.cause()), fault.message()};
}

StreamReactor* StreamReactor::start(engine::Engine& engine) {
  return begin(engine, std::shared_ptr<StreamReactor>(new StreamReactor));
}

StreamReactor* StreamReactor::start(engine::Engine& engine, auth::Gate& gate, auth::Caller caller, auth::Permit place) {
  std::shared_ptr<StreamReactor> reactor(new StreamReactor);
  // The guard goes in OnDone, so what it calls finds this alive.
  reactor->guard_ = std::make_unique<StreamGuard>(gate, std::move(caller), std::move(place),
                                                  [raw = reactor.get()](const StreamEnd& end) { raw->end_by(end); });
  return begin(engine, reactor);
}

StreamReactor* StreamReactor::begin(engine::Engine& engine, const std::shared_ptr<StreamReactor>& reactor) {
  reactor->self_ = reactor;
  reactor->stream_ = engine.attach(reactor);
  std::lock_guard lock(reactor->mutex_);
  reactor->read_next();
  return reactor.get();
}

// ---- from the engine ------------------------------------------------------------------------------------------------

void StreamReactor::send(const v1::ServerMessage& message) {
  std::lock_guard lock(mutex_);
  queue(message);
}

void StreamReactor::resume() {
  std::lock_guard lock(mutex_);
  if (paused_) {
    paused_ = false;
    read_next();
  } else {
    ++early_resumes_;
  }
}

void StreamReactor::end(const v1::Fault& fault) {
  if (guard_) {
    if (const auto instead = guard_->ended(fault)) return end_by(*instead);
  }
  v1::ServerMessage message;
  *message.mutable_fault() = fault;
  std::lock_guard lock(mutex_);
  queue(message);
  finish_when_written(status_of(fault));
}

void StreamReactor::finish() {
  std::lock_guard lock(mutex_);
  finish_when_written(grpc::Status::OK);
}

void StreamReactor::end_by(const StreamEnd& end) {
  std::lock_guard lock(mutex_);
  if (end.fault) {
    v1::ServerMessage message;
    *message.mutable_fault() = *end.fault;
    queue(message);
  }
  finish_when_written(end.status);
}

// ---- from gRPC ------------------------------------------------------------------------------------------------------

void StreamReactor::OnReadDone(bool ok) {
  if (ok) return on_bytes();
  // The client closed its side, or the connection broke.
  std::lock_guard lock(mutex_);
  finish_when_written(grpc::Status::OK);
}

void StreamReactor::on_bytes() {
  v1::ClientMessage message;
  const std::size_t bytes = incoming_.Length();
  if (!parse(incoming_, message)) {
    v1::ServerMessage answer;
    answer.mutable_fault()->set_cause(v1::FAULT_CAUSE_PROTOCOL);
    answer.mutable_fault()->set_message(kDoesNotParse);
    std::lock_guard lock(mutex_);
    queue(answer);
    return finish_when_written({grpc::StatusCode::INVALID_ARGUMENT, kDoesNotParse});
  }
  if (guard_) {
    if (const auto end = guard_->check(message, bytes)) return end_by(*end);
  }
  const engine::Stream::Next next = stream_->on_message(std::move(message));
  std::lock_guard lock(mutex_);
  if (guard_ && guard_->wait().count() > 0) read_after_ = std::chrono::steady_clock::now() + guard_->wait();
  if (next == engine::Stream::Next::kStop) return;
  if (next == engine::Stream::Next::kPause && early_resumes_ == 0) {
    paused_ = true;
    return;
  }
  if (next == engine::Stream::Next::kPause) --early_resumes_;
  read_next();
}

void StreamReactor::OnWriteDone(bool ok) {
  std::lock_guard lock(mutex_);
  writing_ = false;
  if (!ok) queue_.clear();  // the connection is gone
  write_next();
}

void StreamReactor::OnCancel() {
  std::lock_guard lock(mutex_);
  queue_.clear();
  finish_when_written(grpc::Status::CANCELLED);
}

void StreamReactor::OnDone() {
  guard_.reset();
  stream_->closed();
  stream_.reset();
  self_.reset();  // may be the last reference: nothing follows
}

// ---- under the lock -------------------------------------------------------------------------------------------------

void StreamReactor::read_next() {
  if (end_) return;
  if (guard_ && std::chrono::steady_clock::now() < read_after_) {
    // It may be called when nobody is there any more.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(std::chrono::system_clock::now() + (read_after_ - std::chrono::steady_clock::now()),
                [weak = weak_from_this()](bool ok) {
                  const auto reactor = ok ? weak.lock() : nullptr;
                  if (!reactor) return;
                  std::lock_guard lock(reactor->mutex_);
                  reactor->read_next();
                });
    return;
  }
  StartRead(&incoming_);
}

void StreamReactor::queue(const v1::ServerMessage& message) {
  if (end_) return;
  // Acks are cumulative: one that waits is replaced by the newer.
  if (message.has_ack() && !queue_.empty() && queue_.back().is_ack) queue_.pop_back();
  if (queue_.size() >= kMaxQueued) {
    queue_.clear();
    if (guard_) guard_->note_slow_reader();
    return finish_when_written({grpc::StatusCode::RESOURCE_EXHAUSTED, "the client does not read what the server sends"});
  }
  queue_.push_back({bytes_of(message), message.has_ack()});
  write_next();
}

void StreamReactor::write_next() {
  if (writing_ || finished_) return;
  if (!queue_.empty()) {
    outgoing_ = std::move(queue_.front().bytes);
    queue_.pop_front();
    writing_ = true;
    StartWrite(&outgoing_);
  } else if (end_) {
    finished_ = true;
    Finish(*end_);
  }
}

void StreamReactor::finish_when_written(const grpc::Status& status) {
  if (!end_) end_ = status;
  write_next();
}

}  // namespace scalewatch::ingest

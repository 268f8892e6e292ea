// A stream that is refused before anything was read of it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <utility>

#include "server/ingest/stream_guard.h"

namespace scalewatch::ingest {

// Tells the fault, if there is one, then ends. Deletes itself.
class RefusedReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedReactor(StreamEnd end) : end_(std::move(end)) {
    if (!end_.fault) {
      Finish(end_.status);
      return;
    }
    v1::ServerMessage message;
    *message.mutable_fault() = *end_.fault;
    const grpc::Slice slice(message.SerializeAsString());
    bytes_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&bytes_);
  }

  void OnWriteDone(bool /*ok*/) override { Finish(end_.status); }
  void OnDone() override { delete this; }

 private:
  const StreamEnd end_;
  grpc::ByteBuffer bytes_;
};

}  // namespace scalewatch::ingest

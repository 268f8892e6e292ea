// One gRPC stream: reads one message at a time, as fast as the engine has room; writes in order, never blocking the engine.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "server/engine/engine.h"
#include "server/ingest/stream_guard.h"

namespace scalewatch::ingest {

// Status that ends a stream for a fault's cause.
grpc::Status status_of(const v1::Fault& fault);

// Keeps itself alive until gRPC is done with it.
class StreamReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public engine::StreamPeer,
                            public std::enable_shared_from_this<StreamReactor> {
 public:
  static StreamReactor* start(engine::Engine& engine);
  // The same for a caller whom the gate let in, with its place among the streams.
  static StreamReactor* start(engine::Engine& engine, auth::Gate& gate, auth::Caller caller, auth::Permit place);

  // engine::StreamPeer
  void send(const v1::ServerMessage& message) override;
  void resume() override;
  void end(const v1::Fault& fault) override;
  void finish() override;

  // grpc::ServerBidiReactor
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  StreamReactor() = default;
  static StreamReactor* begin(engine::Engine& engine, const std::shared_ptr<StreamReactor>& reactor);
  void end_by(const StreamEnd& end);
  void on_bytes();
  void read_next();                                      // mutex_ held
  void queue(const v1::ServerMessage& message);          // mutex_ held
  void write_next();                                     // mutex_ held
  void finish_when_written(const grpc::Status& status);  // mutex_ held

  std::shared_ptr<StreamReactor> self_;
  std::shared_ptr<engine::Stream> stream_;
  std::unique_ptr<StreamGuard> guard_;  // null: nothing is asked of the caller

  std::mutex mutex_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;  // in flight
  struct Queued {
    grpc::ByteBuffer bytes;
    bool is_ack = false;
  };
  std::deque<Queued> queue_;
  bool writing_ = false;
  std::chrono::steady_clock::time_point read_after_;  // where the caller has a rate
  std::unique_ptr<grpc::Alarm> alarm_;                // that waits for it
  bool paused_ = false;                               // waits for resume()
  int early_resumes_ = 0;                             // resume() that came before its pause
  std::optional<grpc::Status> end_;                   // what the stream ends with once the queue is written
  bool finished_ = false;
};

}  // namespace scalewatch::ingest

// One bidirectional stream to scalewatch.v1.Ingest over a generic gRPC stub: bytes in, bytes out, no Protobuf.
//
// Used by one thread. Nothing blocks but the destructor, which cancels the call and waits until gRPC is done with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client_lib/src/credentials.h"

namespace scalewatch::client {

class Stream {
 public:
  struct End {
    int code = 0;  // grpc::StatusCode
    std::string message;
  };

  // Connects to server (host:port, [v6]:port or unix:path) and shows the token, but not without TLS to another machine. wake is
  // called from gRPC's threads whenever something changed.
  Stream(const std::string& server, const Security& security, std::function<void()> wake);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // One write is on its way at most; the write before has been taken by the transport when this is true.
  [[nodiscard]] bool can_write() const;
  void write(const std::string& message);
  // Half-closes. Nothing may be written afterwards.
  void writes_done();
  // The next message, if one has come.
  [[nodiscard]] std::optional<std::string> read();
  // Set when the stream is over and all messages were read.
  [[nodiscard]] std::optional<End> end() const;

 private:
  class Call;
  std::unique_ptr<Call> call_;
};

}  // namespace scalewatch::client

// The gRPC server: services, health and reflection on one port, with the transport's knobs set.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/app/call_meter.h"
#include "server/app/config.h"
#include "server/auth/certificates.h"

namespace grpc {
class Server;
class ServerCredentials;
class Service;
}  // namespace grpc

namespace scalewatch::app {

struct GrpcSecurity {
  std::shared_ptr<auth::Certificates> certificates;  // null: no TLS
  bool tokens = false;                               // are asked for: what needs none is not offered, but for health
};

class GrpcListener {
 public:
  // Throws std::runtime_error that names the address and the cause.
  GrpcListener(const Address& address, const GrpcOptions& options, std::uint32_t max_message_bytes,
               const GrpcSecurity& security, std::vector<std::unique_ptr<grpc::Service>> services, CallEnded ended);
  ~GrpcListener();  // stops

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Health says NOT_SERVING from now on; calls are served all the same.
  void say_leaving();
  // Health says NOT_SERVING, calls under way get one second, the rest is cancelled. Idempotent.
  void stop();

 private:
  std::uint16_t port_ = 0;
  const std::vector<std::unique_ptr<grpc::Service>> services_;  // outlive the server
  const std::shared_ptr<grpc::ServerCredentials> credentials_;  // so do these: each handshake asks them
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace scalewatch::app

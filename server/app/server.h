// scalewatchd put together: the only place that names concrete rooms.
#pragma once

#include <cstdint>
#include <memory>

#include "server/app/config.h"

namespace scalewatch::app {

class Server {
 public:
  // Opens the data folder, loads what ran, listens. When it returns, both ports are served. Throws std::runtime_error with one
  // line that names the cause: a folder that cannot be used, a port in use, a port file that cannot be written.
  explicit Server(const Config& config);
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t grpc_port() const;
  [[nodiscard]] std::uint16_t http_port() const;

  // /readyz turns 503, alerts under way get config.alert_flush, streams end with SHUTTING_DOWN, all that was taken is
  // committed, then the ports close. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::app

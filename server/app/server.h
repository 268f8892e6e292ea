// scalewatchd put together: the only place that names concrete rooms.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/app/config.h"
#include "server/engine/ports/reload_status.h"

namespace scalewatch::app {

// Reads the configuration again, all of it, as at the start. Throws ConfigError. Any thread, one call at a time.
using ReadConfig = std::function<Config()>;

class Server {
 public:
  // Opens the data folder, loads what ran, listens. When it returns, both ports are served. Throws std::runtime_error with one
  // line that names the cause: a folder that cannot be used, a port in use, a port file that cannot be written.
  // `read_again`: see reload(); empty: there is no file, and nothing can be read again.
  explicit Server(const Config& config, ReadConfig read_again = {});
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t grpc_port() const;
  [[nodiscard]] std::uint16_t http_port() const;

  // Takes what may change while the server runs (rules.*, rules_by_run, alerting.* but for alerting.flush) from the
  // configuration as it reads now. What is wrong with it, or differs and needs a restart, goes to the log; a wrong one changes
  // nothing. Runs take new rules as a logged input each, so that a restart finds what this server found. `by`: for the log.
  // Thread-safe; also what the RPC ReloadConfiguration does.
  void reload(const std::string& by);
  [[nodiscard]] const engine::ReloadStatus& reloads() const;

  // /readyz turns 503, alerts under way get config.alert_flush, streams end with SHUTTING_DOWN, all that was taken is
  // committed, then the ports close. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::app

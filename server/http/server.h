// scalewatchd's HTTP/1.1 side: /metrics, /healthz, /readyz, /api/v1/ and / with a list of them.
//
// One thread does all socket work and the quick pages; API queries run on a small bounded pool, so that a slow one holds up
// neither. Connections, requests, waiting queries, bytes of answers and times are bounded. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/auth/certificates.h"
#include "server/auth/gate.h"
#include "server/auth/guarded_history.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::http {

struct Options {
  std::string address = "127.0.0.1";  // IPv4 or IPv6
  std::uint16_t port = 9464;          // 0 = any free one; see Server::port()
  std::size_t max_connections = 256;  // further ones get 503
  // When all are taken, the one that has waited for a request or its rest longest makes room, if for so long.
  std::chrono::milliseconds spare_after{1'000};
  std::uint32_t max_header_bytes = 16u << 10;  // of a request; else 431
  std::uint64_t max_body_bytes = 64u << 10;    // of a request; else 413
  // A request must arrive, an answer must be taken, and the next request must begin within this.
  std::chrono::milliseconds idle_timeout{30'000};
  unsigned api_threads = 2;
  std::size_t api_queue = 64;  // queries waiting for a thread; further ones get 503
  // Answers of the API that readers have not taken yet; beyond it queries get 503.
  std::size_t max_unsent_bytes = 64u << 20;
  std::shared_ptr<auth::Certificates> certificates;  // null: plain HTTP
  // Requests must be for an address, a name without dots, or `public_host`: a name that somebody else has led here must not
  // make his page one of this server's in a user's browser. For servers on loopback that ask for no token.
  bool own_names_only = false;
  std::string public_host;
};

struct Sources {
  std::function<std::string()> metrics;          // Prometheus text format 0.0.4
  std::function<std::string()> not_ready;        // why the server is not ready; empty = it is
  std::function<engine::HistoryApi*()> history;  // null = not now (503)
  std::function<engine::AlertsApi*()> alerts;    // null = not now (503)
  auth::Gate* gate = nullptr;                    // lets callers in; null: everybody may do everything
  auth::NameOfRun name_of{};                     // needed with a gate; asked only while history is not null
  // Told of every answer: the pattern of its route ("none": nothing is there), its status, and what it took since the request
  // had come; null: nobody wants to know.
  std::function<void(const std::string& route, unsigned status, double seconds)> answered{};
};

class Server {
 public:
  // Listens at once. Throws std::runtime_error that names the address and the cause. Sources are called from several threads
  // until stop() returns.
  Server(const Options& options, const Sources& sources);
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const;

  // Closes every connection and waits for queries that are running. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::http

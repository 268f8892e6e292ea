// A tiny real HTTP server on 127.0.0.1 for tests: one thread a connection, each answer decided by the test.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace scalewatch::alerting {

struct Received {
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct Reply {
  enum class How : std::uint8_t { kAnswer, kHang, kClose };
  int status = 200;
  std::string headers;  // whole lines with CRLF
  std::string body;
  How how = How::kAnswer;
};

class HttpServer {
 public:
  // `answer` is called from connection threads, one at a time; `index` counts requests from 0.
  using Answer = std::function<Reply(const Received& request, std::size_t index)>;
  explicit HttpServer(Answer answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::string url(const std::string& path = "/") const;
  // Waits until that many requests came in all; fails the test after 20 s.
  std::vector<Received> wait_for(std::size_t count);
  std::vector<Received> received();

 private:
  void accept_loop();
  void serve(int socket);
  bool serve_one(int socket, std::string& buffer);

  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Received> received_;
  std::set<int> sockets_;
  std::vector<std::thread> connections_;
  bool stopping_ = false;
  std::thread acceptor_;
};

}  // namespace scalewatch::alerting

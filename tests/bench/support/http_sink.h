// A webhook receiver on loopback that notes when each body arrived. Its functions are thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace scalewatch::bench {

class HttpSink {
 public:
  using Clock = std::chrono::steady_clock;

  HttpSink();  // throws std::system_error
  ~HttpSink();
  HttpSink(const HttpSink&) = delete;
  HttpSink& operator=(const HttpSink&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  // When the first body that holds `text` arrived; waits for it up to `timeout`.
  std::optional<Clock::time_point> arrival(const std::string& text, std::chrono::milliseconds timeout);

 private:
  struct Arrival {
    Clock::time_point time;
    std::string body;
  };
  void accept_all();
  void serve(int connection);

  int listener_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace scalewatch::bench

// A host that answers as a test says, in ClickHouse's place.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace scalewatch::clickhouse {

class StubHost {
 public:
  // A whole HTTP answer to a whole request; empty: the connection is closed without one; kHangs: nothing comes.
  using Answer = std::function<std::string(const std::string& request)>;
  static constexpr const char* kHangs = "hangs";

  explicit StubHost(Answer answer) : answer_(std::move(answer)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 64);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  StubHost(const StubHost&) = delete;
  StubHost& operator=(const StubHost&) = delete;
  ~StubHost() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    for (const int held : held_) close(held);
  }

  [[nodiscard]] const std::string& url() const { return url_; }
  void set(Answer answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // Requests so far that have this in them.
  [[nodiscard]] int asked(const std::string& what) {
    const std::lock_guard lock(mutex_);
    int count = 0;
    for (const std::string& request : requests_) count += request.find(what) != std::string::npos ? 1 : 0;
    return count;
  }

  static std::string http(int status, const std::string& body) {
    return "HTTP/1.1 " + std::to_string(status) + " x\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static std::string error(int code) {
    return http(500, "Code: " + std::to_string(code) + ", e.displayText() = DB::Exception: told by a test");
  }

 private:
  void serve() {
    for (int taken = accept(listener_, nullptr, nullptr); taken >= 0; taken = accept(listener_, nullptr, nullptr)) {
      const std::string request = read(taken);
      std::string answer;
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        answer = answer_(request);
      }
      if (answer == kHangs) {
        held_.push_back(taken);
        continue;
      }
      if (!answer.empty()) send(taken, answer.data(), answer.size(), MSG_NOSIGNAL);
      close(taken);
    }
  }
  static std::string read(int from) {
    std::string request;
    std::size_t whole = std::string::npos;
    for (char part[4096]; request.size() < whole;) {
      const ssize_t got = recv(from, part, sizeof(part), 0);
      if (got <= 0) break;
      request.append(part, static_cast<std::size_t>(got));
      const std::size_t head = request.find("\r\n\r\n");
      const std::size_t length = request.find("Content-Length: ");
      if (head == std::string::npos || length == std::string::npos) continue;
      whole = head + 4 + std::stoul(request.substr(length + 16));
    }
    return request;
  }

  std::mutex mutex_;
  Answer answer_;
  std::vector<std::string> requests_;
  std::vector<int> held_;
  const int listener_;
  std::string url_;
  std::thread thread_;
};

}  // namespace scalewatch::clickhouse

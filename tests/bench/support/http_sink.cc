#include "tests/bench/support/http_sink.h"

#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace scalewatch::bench {
namespace {

constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

std::size_t body_size(std::string_view head) {
  constexpr std::string_view kName = "\r\ncontent-length:";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto found = std::search(head.begin(), head.end(), kName.begin(), kName.end(), same);
  if (found == head.end()) return 0;
  return std::strtoull(&*found + kName.size(), nullptr, 10);
}

}  // namespace

HttpSink::HttpSink() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "webhook sink");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpSink::~HttpSink() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
  for (auto& thread : threads_) thread.join();
  for (const int connection : connections_) close(connection);
}

void HttpSink::accept_all() {
  for (;;) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    connections_.push_back(connection);
    threads_.emplace_back([this, connection] { serve(connection); });
  }
}

void HttpSink::serve(int connection) {
  std::string bytes;
  std::array<char, 64 * 1024> buffer{};
  for (;;) {
    const std::size_t head = bytes.find("\r\n\r\n");
    const std::size_t whole = head == std::string::npos ? 0 : head + 4 + body_size(std::string_view(bytes).substr(0, head));
    if (head == std::string::npos || bytes.size() < whole) {
      const ssize_t got = recv(connection, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      bytes.append(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    const auto now = Clock::now();
    {
      std::lock_guard lock(mutex_);
      arrivals_.push_back({now, bytes.substr(head + 4, whole - head - 4)});
    }
    changed_.notify_all();
    bytes.erase(0, whole);
    if (send(connection, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) < 0) return;
  }
}

std::optional<HttpSink::Clock::time_point> HttpSink::arrival(const std::string& text, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const Arrival* found = nullptr;
  changed_.wait_for(lock, timeout, [&] {
    const auto at = std::find_if(arrivals_.begin(), arrivals_.end(),
                                 [&](const Arrival& a) { return a.body.find(text) != std::string::npos; });
    found = at == arrivals_.end() ? nullptr : &*at;
    return found != nullptr;
  });
  if (found == nullptr) return std::nullopt;
  return found->time;
}

}  // namespace scalewatch::bench

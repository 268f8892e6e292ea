#include "tests/unit/alerting/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

namespace scalewatch::alerting {

namespace {

// Appends what comes; false when the connection is over.
bool read_more(int socket, std::string& buffer) {
  std::array<char, 4096> bytes{};
  const ssize_t count = recv(socket, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  buffer.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

Received parse_head(const std::string& head) {
  Received out;
  std::size_t at = head.find("\r\n");
  const std::string line = head.substr(0, at);
  const std::size_t from = line.find(' ') + 1;
  out.target = line.substr(from, line.find(' ', from) - from);
  while (at + 2 < head.size()) {
    const std::size_t end = head.find("\r\n", at + 2);
    const std::string header = head.substr(at + 2, end - at - 2);
    const std::size_t colon = header.find(':');
    std::string name = header.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    out.headers[name] = header.substr(std::min(header.size(), colon + 2));
    if (end == std::string::npos) break;
    at = end;
  }
  return out;
}

}  // namespace

HttpServer::HttpServer(Answer answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_loop(); });
}

HttpServer::~HttpServer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const int each : sockets_) shutdown(each, SHUT_RDWR);
  }
  changed_.notify_all();
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& connection : connections_) connection.join();
  close(listener_);
}

std::string HttpServer::url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + path;
}

std::vector<Received> HttpServer::wait_for(std::size_t count) {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, std::chrono::seconds(20), [&] { return received_.size() >= count; });
  EXPECT_TRUE(came) << received_.size() << " of " << count << " requests came";
  return received_;
}

std::vector<Received> HttpServer::received() {
  std::lock_guard lock(mutex_);
  return received_;
}

void HttpServer::accept_loop() {
  while (true) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    std::lock_guard lock(mutex_);
    if (stopping_) {
      close(socket);
      return;
    }
    sockets_.insert(socket);
    connections_.emplace_back([this, socket] { serve(socket); });
  }
}

void HttpServer::serve(int socket) {
  std::string buffer;
  while (serve_one(socket, buffer)) {
  }
  std::lock_guard lock(mutex_);
  sockets_.erase(socket);
  close(socket);
}

bool HttpServer::serve_one(int socket, std::string& buffer) {
  std::size_t head_end = 0;
  while ((head_end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!read_more(socket, buffer)) return false;
  }
  Received request = parse_head(buffer.substr(0, head_end));
  const std::size_t length = std::stoul("0" + request.headers["content-length"]);
  while (buffer.size() < head_end + 4 + length) {
    if (!read_more(socket, buffer)) return false;
  }
  request.body = buffer.substr(head_end + 4, length);
  buffer.erase(0, head_end + 4 + length);
  Reply reply;
  {
    std::unique_lock lock(mutex_);
    received_.push_back(request);
    changed_.notify_all();
    reply = answer_(request, received_.size() - 1);
    if (reply.how == Reply::How::kHang) changed_.wait(lock, [&] { return stopping_; });
  }
  if (reply.how != Reply::How::kAnswer) return false;
  const std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n" + reply.headers +
                           "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body;
  return send(socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

}  // namespace scalewatch::alerting

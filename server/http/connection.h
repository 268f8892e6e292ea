// One HTTP/1.1 connection: reads requests, has them answered, writes the answers, one after the other.
//
// Lives by shared_ptr as long as an operation of it is pending. All calls come from the I/O thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/dispatcher.h"

namespace scalewatch::http {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `tls`: null for plain HTTP.
  Connection(boost::asio::ip::tcp::socket socket, const Options& options, Dispatcher& dispatcher,
             std::shared_ptr<boost::asio::ssl::context> tls);

  void serve();
  // Answers without reading a request, and closes.
  void refuse(Response response);
  void close();
  // Since when it waits for a request, or for the rest of one; nothing while one is answered.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> waiting_since() const { return waiting_since_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Message = boost::beast::http::response<boost::beast::http::string_body>;

  // Calls `operation` with the stream that bytes of HTTP go through.
  template <class Operation>
  void on_stream(const Operation& operation) {
    if (tls_) {
      operation(*tls_);
    } else {
      operation(stream_);
    }
  }
  // Then `next`, once bytes of HTTP can come.
  void handshake(std::function<void()> next);
  void read();
  void on_read(boost::beast::error_code error);
  void write(Answer answer, unsigned version, bool keep_alive, bool head);
  void on_written(bool keep_alive);
  void end_sending();
  void linger();

  const Options& options_;
  Dispatcher& dispatcher_;
  boost::beast::tcp_stream stream_;
  const std::shared_ptr<boost::asio::ssl::context> tls_context_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
  const std::string peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::optional<Message> message_;
  std::shared_ptr<void> unsent_;  // the answer being written, in the dispatcher's count
  std::size_t drained_ = 0;
  bool handshaken_ = false;
  std::optional<std::chrono::steady_clock::time_point> waiting_since_ = std::chrono::steady_clock::now();
};

}  // namespace scalewatch::http

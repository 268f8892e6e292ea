#include "server/http/connection.h"

#include <boost/asio/post.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace scalewatch::http {
namespace {

namespace beast = boost::beast;
namespace bhttp = boost::beast::http;

constexpr std::size_t kReadBytes = 64u << 10;   // of the read buffer, beyond the header's limit
constexpr std::size_t kLingerBytes = 1u << 20;  // read and dropped after an answer that ends the connection
constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::seconds kHandshake{10};  // of TLS, at most

std::string address_of(const boost::asio::ip::tcp::socket& socket) {
  beast::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return {};
  const auto address = endpoint.address();
  // A socket for both families tells IPv4 addresses as IPv6.
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

// What the client gets for bytes that are no request; nothing for a connection that is just gone.
std::optional<Response> answer_to(beast::error_code error, const Options& options) {
  if (error == bhttp::error::header_limit || error == bhttp::error::buffer_overflow) {
    return error_response(431, "the request's header is larger than " + std::to_string(options.max_header_bytes) + " bytes");
  }
  if (error == bhttp::error::body_limit) {
    return error_response(413, "the request's body is larger than " + std::to_string(options.max_body_bytes) + " bytes");
  }
  const bool malformed = error.category() == bhttp::make_error_code(bhttp::error::bad_method).category();
  if (!malformed || error == bhttp::error::end_of_stream || error == bhttp::error::partial_message) return std::nullopt;
  return error_response(400, "not an HTTP/1.1 request: " + error.message());
}

// A proxy in front may read such a request as another one than this server does, and take what follows it for the same one's
// rest.
bool length_is_unclear(const bhttp::request<bhttp::string_body>& message) {
  const auto encodings = message.count(bhttp::field::transfer_encoding);
  const auto lengths = message.count(bhttp::field::content_length);
  if (encodings == 0) return lengths > 1;
  return encodings > 1 || lengths > 0 || !beast::iequals(message[bhttp::field::transfer_encoding], "chunked");
}

}  // namespace

Connection::Connection(boost::asio::ip::tcp::socket socket, const Options& options, Dispatcher& dispatcher,
                       std::shared_ptr<boost::asio::ssl::context> tls)
    : options_(options),
      dispatcher_(dispatcher),
      stream_(std::move(socket)),
      tls_context_(std::move(tls)),
      peer_(address_of(stream_.socket())),
      buffer_(options.max_header_bytes + kReadBytes) {
  if (tls_context_) tls_.emplace(stream_, *tls_context_);
}

void Connection::serve() {
  handshake([this] { read(); });
}

void Connection::refuse(Response response) {
  // Held by what waits for the handshake.
  auto held = std::make_shared<Response>(std::move(response));
  handshake([this, held] { write({std::move(*held), nullptr}, 11, false, false); });
}

void Connection::handshake(std::function<void()> next) {
  if (!tls_ || handshaken_) return next();
  stream_.expires_after(std::min<std::chrono::milliseconds>(options_.idle_timeout, kHandshake));
  tls_->async_handshake(boost::asio::ssl::stream_base::server,
                        [self = shared_from_this(), next = std::move(next)](beast::error_code error) {
                          if (error) return self->close();
                          self->handshaken_ = true;
                          next();
                        });
}

void Connection::close() {
  stream_.close();
}

void Connection::read() {
  parser_.emplace();
  parser_->header_limit(options_.max_header_bytes);
  parser_->body_limit(options_.max_body_bytes);
  waiting_since_ = std::chrono::steady_clock::now();
  stream_.expires_after(options_.idle_timeout);
  on_stream([this](auto& stream) {
    bhttp::async_read(stream, buffer_, *parser_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) { self->on_read(error); });
  });
}

void Connection::on_read(beast::error_code error) {
  if (error || !parser_) {
    auto response = answer_to(error, options_);
    const bool half = error == beast::error::timeout && parser_ && parser_->got_some();
    if (response || half) dispatcher_.refused(auth::Refusal::kRequest);
    if (response) return refuse(*std::move(response));
    return close();
  }
  waiting_since_.reset();
  auto message = parser_->release();
  if (length_is_unclear(message)) {
    dispatcher_.refused(auth::Refusal::kRequest);
    return refuse(error_response(400, "not an HTTP/1.1 request: its length is told in two ways, or in none that is known"));
  }
  const bool head = message.method() == bhttp::verb::head;
  const unsigned version = message.version();
  const bool keep_alive = message.keep_alive();
  const auto text = [](auto view) { return std::string(view.data(), view.size()); };
  auto request = std::make_shared<Request>(
      Request{head ? "GET" : text(message.method_string()), text(message.target()), text(message[bhttp::field::content_type]),
              std::move(message.body()), text(message[bhttp::field::authorization]), peer_, text(message[bhttp::field::host])});
  // No deadline while the answer is made: its time is the server's, not the client's.
  stream_.expires_never();
  dispatcher_.dispatch(std::move(request), [self = shared_from_this(), version, keep_alive, head](Answer answer) {
    boost::asio::post(self->stream_.get_executor(), [self, version, keep_alive, head, answer = std::move(answer)]() mutable {
      self->write(std::move(answer), version, keep_alive, head);
    });
  });
}

void Connection::write(Answer answer, unsigned version, bool keep_alive, bool head) {
  Response& response = answer.response;
  unsent_ = std::move(answer.unsent);
  message_.emplace(static_cast<bhttp::status>(response.status), version);
  message_->set(bhttp::field::server, "scalewatchd");
  message_->set(bhttp::field::content_type, response.content_type);
  message_->set(bhttp::field::cache_control, "no-store");
  message_->set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers) message_->set(name, value);
  message_->keep_alive(keep_alive);
  message_->content_length(response.body.size());
  if (!head) message_->body() = std::move(response.body);
  stream_.expires_after(options_.idle_timeout);
  on_stream([this, keep_alive](auto& stream) {
    bhttp::async_write(stream, *message_, [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
      if (error == beast::error::timeout) self->dispatcher_.refused(auth::Refusal::kSlowReader);
      if (error) return self->close();
      self->on_written(keep_alive);
    });
  });
}

void Connection::on_written(bool keep_alive) {
  message_.reset();
  unsent_.reset();
  if (keep_alive) return read();
  if (tls_) {
    stream_.expires_after(kLinger);
    return tls_->async_shutdown([self = shared_from_this()](beast::error_code) { self->end_sending(); });
  }
  end_sending();
}

void Connection::end_sending() {
  beast::error_code ignored;
  stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kLinger);
  linger();
}

// Closing with unread bytes would reset the connection and could take the answer with it, so what the client still sends is
// read and dropped, within bounds.
void Connection::linger() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
    self->drained_ += bytes;
    if (error || self->drained_ > kLingerBytes) return self->close();
    self->linger();
  });
}

}  // namespace scalewatch::http

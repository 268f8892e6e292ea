#include "server/http/server.h"

#include <openssl/ssl.h>
#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/api.h"
#include "server/http/connection.h"
#include "server/http/dispatcher.h"
#include "server/http/pages.h"
#include "server/http/tables.h"

namespace scalewatch::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Connections beyond the limit that may wait for their 503; more are closed at once.
constexpr std::size_t kMaxRefusing = 64;

constexpr std::chrono::seconds kLook{1};  // at the certificates

std::shared_ptr<asio::ssl::context> make_tls(const auth::Certificates::Set& set) {
  SSL_CTX* const context = set.context.get();
  SSL_CTX_up_ref(context);
  return std::make_shared<asio::ssl::context>(context);
}

Router make_router(const Sources& sources) {
  const ApiSources of_api{sources.history, sources.alerts, sources.gate, sources.name_of};
  std::vector<Route> routes = page_routes(sources);
  std::vector<Route> api = api_routes(of_api);
  routes.insert(routes.end(), std::make_move_iterator(api.begin()), std::make_move_iterator(api.end()));
  std::vector<Route> tables = table_routes(of_api);
  routes.insert(routes.end(), std::make_move_iterator(tables.begin()), std::make_move_iterator(tables.end()));
  return Router(std::move(routes));
}

}  // namespace

struct Server::Impl {
  Impl(const Options& opts, const Sources& sources)
      : options(opts), dispatcher(options, make_router(sources), sources), acceptor(io), retry(io), look(io) {
    if (options.certificates) look_at_certificates();
    const std::string where = options.address + ":" + std::to_string(options.port);
    boost::system::error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    if (error) throw std::runtime_error("cannot listen for HTTP on " + where + ": not an IP address");
    const tcp::endpoint endpoint(address, options.port);
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);  // past TIME_WAIT only
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (error) throw std::runtime_error("cannot listen for HTTP on " + where + ": " + error.message());
    port = acceptor.local_endpoint().port();
    accept();
    thread = std::thread([this] {
      pthread_setname_np(pthread_self(), "http");
      io.run();
    });
  }

  void accept() {
    acceptor.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // e.g. no file descriptor left: there may be one again soon
        retry.expires_after(std::chrono::milliseconds(100));
        retry.async_wait([this](boost::system::error_code aborted) {
          if (!aborted) accept();
        });
        return;
      }
      admit(std::move(socket));
      accept();
    });
  }

  // Whoever only holds connections open keeps nobody out: of those that wait for a request, the oldest goes.
  void make_room() {
    auto until = std::chrono::steady_clock::now() - options.spare_after;
    auto oldest = connections.end();
    for (auto it = connections.begin(); it != connections.end(); ++it) {
      const auto connection = it->lock();
      const auto since = connection ? connection->waiting_since() : std::nullopt;
      if (!since || *since > until) continue;
      until = *since;
      oldest = it;
    }
    if (oldest == connections.end()) return;
    dispatcher.refused(auth::Refusal::kConnections);
    if (const auto connection = oldest->lock()) connection->close();
    connections.erase(oldest);
  }

  void admit(tcp::socket socket) {
    std::erase_if(connections, [](const auto& weak) { return weak.expired(); });
    if (connections.size() >= options.max_connections) make_room();
    if (connections.size() >= options.max_connections + kMaxRefusing) {  // closes the socket
      return dispatcher.refused(auth::Refusal::kConnections);
    }
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(std::move(socket), options, dispatcher, tls);
    if (connections.size() >= options.max_connections) {
      Response response = error_response(503, "too many connections; close some or ask again");
      response.headers.emplace_back("Retry-After", "1");
      dispatcher.refused(auth::Refusal::kConnections);
      connection->refuse(std::move(response));
    } else {
      connection->serve();
    }
    connections.push_back(connection);
  }

  // New connections take new certificates; those that are open keep theirs.
  void look_at_certificates() {
    if (const auto set = options.certificates->now(); set->number != tls_number) {
      tls_number = set->number;
      tls = make_tls(*set);
    }
    look.expires_after(kLook);
    look.async_wait([this](boost::system::error_code aborted) {
      if (!aborted) look_at_certificates();
    });
  }

  void stop() {
    if (stopped.exchange(true)) return;
    dispatcher.stop();
    io.stop();
    thread.join();
    boost::system::error_code ignored;
    acceptor.close(ignored);
    for (const auto& weak : connections) {
      if (auto connection = weak.lock()) connection->close();
    }
  }

  const Options options;
  asio::io_context io{1};                              // outlives the dispatcher, whose waiting queries hold connections
  std::vector<std::weak_ptr<Connection>> connections;  // of the I/O thread
  Dispatcher dispatcher;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  asio::steady_timer look;                  // at the certificates
  std::uint64_t tls_number = 0;             // of the set in use; of the I/O thread, as the next
  std::shared_ptr<asio::ssl::context> tls;  // null: plain HTTP
  std::uint16_t port = 0;
  std::atomic<bool> stopped{false};
  std::thread thread;
};

Server::Server(const Options& options, const Sources& sources) : impl_(std::make_unique<Impl>(options, sources)) {}
Server::~Server() {
  stop();
}

std::uint16_t Server::port() const {
  return impl_->port;
}
void Server::stop() {
  impl_->stop();
}

}  // namespace scalewatch::http

#include "server/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>

#include "tests/unit/http/fakes.h"

namespace scalewatch::http {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct ServerTest : ::testing::Test {
  FakeHistory history;
  FakeAlerts alerts;
  std::mutex mutex;
  std::string reason;
  decltype(Sources::answered) answered;
  Options options;
  std::unique_ptr<Server> server;

  ServerTest() { options.port = 0; }
  std::uint16_t start() {
    server = std::make_unique<Server>(options, Sources{[] { return std::string("up 1\n"); },
                                                       [this] {
                                                         const std::lock_guard lock(mutex);
                                                         return reason;
                                                       },
                                                       [this] { return &history; },
                                                       [this] { return &alerts; },
                                                       nullptr,
                                                       {},
                                                       answered});
    return server->port();
  }
};

TEST_F(ServerTest, Pages) {
  Client client(start());
  EXPECT_THAT(client.get("/").body, HasSubstr("/api/v1/runs"));
  EXPECT_EQ(client.get("/healthz").body, "ok\n");
  EXPECT_EQ(client.get("/readyz").status, 200u);
  const Reply metrics = client.get("/metrics");
  EXPECT_EQ(metrics.body, "up 1\n");
  EXPECT_TRUE(metrics.has("content-type: text/plain; version=0.0.4"));
  {
    const std::lock_guard lock(mutex);
    reason = "history is degraded";
  }
  const Reply not_ready = client.get("/readyz");
  EXPECT_EQ(not_ready.status, 503u);
  EXPECT_THAT(not_ready.body, HasSubstr("history is degraded"));
  EXPECT_EQ(client.get("/healthz").status, 200u);
}

TEST_F(ServerTest, EveryAnswerIsToldWithItsRouteStatusAndTime) {
  std::vector<std::string> told;
  answered = [&](const std::string& route, unsigned status, double seconds) {
    const std::lock_guard lock(mutex);
    EXPECT_GE(seconds, 0);
    told.push_back(route + " " + std::to_string(status));
  };
  history.status = {engine::Status::kNotFound, "no run is called r"};
  {
    Client client(start());
    client.get("/metrics");
    client.get("/api/v1/runs/r");
    client.get("/api/v1/runs/another");
    client.get("/nothing");
    client.get("/api/v1/runs/r?what=1");
  }
  server->stop();
  EXPECT_THAT(told, ::testing::ElementsAre("/metrics 200", "/api/v1/runs/{run} 404", "/api/v1/runs/{run} 404", "none 404",
                                           "/api/v1/runs/{run} 400"));
}

TEST_F(ServerTest, HeadHasLengthAndNoBody) {
  Client client(start());
  client.send("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  const Reply head = client.receive(/*head_only=*/true);
  EXPECT_EQ(head.status, 200u);
  EXPECT_TRUE(head.has("content-length: 5\r\n"));
  EXPECT_EQ(client.get("/metrics").body, "up 1\n");  // the connection is still in step
}

TEST_F(ServerTest, UnknownPathsAndMethods) {
  Client client(start());
  const Reply missing = client.get("/nothing");
  EXPECT_EQ(missing.status, 404u);
  EXPECT_THAT(missing.body, HasSubstr("\"code\":404"));
  client.send("DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  const Reply refused = client.receive();
  EXPECT_EQ(refused.status, 405u);
  EXPECT_TRUE(refused.has("allow: get, head"));
}

TEST_F(ServerTest, PipelinedRequestsAndConnectionClose) {
  Client client(start());
  client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.receive().body, "ok\n");
  EXPECT_EQ(client.receive().body, "up 1\n");
  EXPECT_TRUE(client.closed());
}

TEST_F(ServerTest, TooLargeAndMalformedRequests) {
  start();
  const auto answer = [&](const std::string& bytes) {
    Client client(server->port());
    client.send(bytes);
    return client.receive().status;
  };
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nX: " + std::string(options.max_header_bytes, 'x') + "\r\n\r\n"), 431u);
  EXPECT_EQ(answer("GET /" + std::string(options.max_header_bytes, 'x') + " HTTP/1.1\r\n\r\n"), 431u);
  EXPECT_EQ(answer("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"), 413u);
  const std::string chunk(20'000, 'x');
  std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 4; ++i) chunked += "4e20\r\n" + chunk + "\r\n";
  EXPECT_EQ(answer(chunked), 413u);
  EXPECT_EQ(answer("what is this\r\n\r\n"), 400u);
  EXPECT_EQ(answer("GET / HTTP/9.9\r\n\r\n"), 400u);
  EXPECT_EQ(answer(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)), 400u);  // TLS on a plain port
  EXPECT_EQ(Client(server->port()).get("/healthz").status, 200u);
}

TEST_F(ServerTest, SlowRequestsTimeOutAndCostNobodyElse) {
  options.idle_timeout = milliseconds(200);
  Client slow(start());
  slow.send("GET /healthz HTTP/1.1\r\nHo");
  Client idle(server->port());
  EXPECT_EQ(idle.get("/healthz").status, 200u);
  EXPECT_TRUE(slow.closed());
  EXPECT_TRUE(idle.closed());
  EXPECT_EQ(Client(server->port()).get("/healthz").status, 200u);
}

TEST_F(ServerTest, ReadersThatTakeNothingTimeOutAndAreBounded) {
  options.idle_timeout = milliseconds(300);
  options.max_unsent_bytes = 1 << 20;
  history.list_runs_response.add_runs()->set_name(std::string(32 << 20, 'x'));
  Client stuck(start());
  boost::asio::socket_base::receive_buffer_size small(4096);
  stuck.socket().set_option(small);
  stuck.send("GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n");
  stuck.socket().wait(boost::asio::ip::tcp::socket::wait_read);  // the answer has begun
  Client other(server->port());
  const Reply refused = other.get("/api/v1/runs");
  EXPECT_EQ(refused.status, 503u);
  EXPECT_TRUE(refused.has("retry-after: 1"));
  EXPECT_EQ(other.get("/healthz").status, 200u);
  // Once the stuck reader was cut, its bytes are free again.
  unsigned status = 503;
  while (status == 503) status = Client(server->port()).get("/api/v1/runs").status;
  EXPECT_EQ(status, 200u);
}

TEST_F(ServerTest, SlowQueriesHoldUpNothingElse) {
  options.api_threads = 1;
  options.api_queue = 1;
  std::promise<void> entered;
  std::promise<void> release;
  std::once_flag once;
  history.before = [&, gate = release.get_future().share()] {
    std::call_once(once, [&] { entered.set_value(); });
    gate.wait();
  };
  start();
  Client running(server->port());
  running.send("GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n");
  entered.get_future().wait();
  // One more may wait; of further ones each gets 503. Which of the two connections is read first is open.
  Client a(server->port());
  Client b(server->port());
  a.send("GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n");
  b.send("GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(Client(server->port()).get("/metrics").status, 200u);
  EXPECT_EQ(Client(server->port()).get("/healthz").status, 200u);
  std::array<boost::system::error_code, 2> ignored;
  while (a.socket().available(ignored[0]) == 0 && b.socket().available(ignored[1]) == 0) std::this_thread::yield();
  release.set_value();
  EXPECT_EQ(running.receive().status, 200u);
  const unsigned first = a.receive().status;
  const unsigned second = b.receive().status;
  EXPECT_EQ(first + second, 200u + 503u);
}

TEST_F(ServerTest, ThrowingHandlersAre500) {
  history.before = [] { throw std::runtime_error("disk on fire"); };
  Client client(start());
  const Reply reply = client.get("/api/v1/runs");
  EXPECT_EQ(reply.status, 500u);
  EXPECT_THAT(reply.body, HasSubstr("disk on fire"));
  EXPECT_EQ(client.get("/healthz").status, 200u);
}

TEST_F(ServerTest, ConnectionsThatOnlyWaitMakeRoom) {
  options.max_connections = 2;
  options.spare_after = milliseconds(0);
  Client oldest(start());
  oldest.send("GET /healthz HTT");
  Client busy(server->port());
  EXPECT_EQ(busy.get("/healthz").status, 200u);
  Client third(server->port());
  EXPECT_EQ(third.get("/healthz").status, 200u);
  EXPECT_TRUE(oldest.closed());
  EXPECT_EQ(busy.get("/healthz").status, 200u);
}

TEST_F(ServerTest, ConnectionsAreBounded) {
  options.max_connections = 2;
  options.spare_after = std::chrono::hours(1);
  start();
  auto first = std::make_unique<Client>(server->port());
  Client second(server->port());
  EXPECT_EQ(first->get("/healthz").status, 200u);
  EXPECT_EQ(second.get("/healthz").status, 200u);
  Client third(server->port());
  const Reply refused = third.receive();
  EXPECT_EQ(refused.status, 503u);
  EXPECT_TRUE(refused.has("retry-after"));
  third.socket().close();
  first.reset();
  unsigned status = 503;
  while (status != 200) status = Client(server->port()).get("/healthz").status;
  EXPECT_EQ(second.get("/healthz").status, 200u);
}

TEST_F(ServerTest, PortInUseIsNamed) {
  start();
  options.port = server->port();
  try {
    const Server again(options, {});
    FAIL() << "two servers on one port";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot listen for HTTP on 127.0.0.1:" + std::to_string(options.port) + ": Address already in use");
  }
}

TEST_F(ServerTest, StopsWithOpenConnectionsAndWaitingQueries) {
  options.api_threads = 1;
  std::promise<void> entered;
  std::promise<void> release;
  std::once_flag once;
  history.before = [&, gate = release.get_future().share()] {
    std::call_once(once, [&] { entered.set_value(); });
    gate.wait();
  };
  Client idle(start());
  Client running(server->port());
  running.send("GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n");
  entered.get_future().wait();
  Client waiting(server->port());
  waiting.send("GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(idle.get("/healthz").status, 200u);
  auto stopped = std::async(std::launch::async, [&] { server->stop(); });
  release.set_value();
  stopped.get();
  server.reset();
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(waiting.closed());
}

}  // namespace
}  // namespace scalewatch::http

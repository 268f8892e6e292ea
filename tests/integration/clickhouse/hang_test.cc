// A ClickHouse that takes connections and answers nothing.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>

#include "server/app/system_clock.h"
#include "server/history/clickhouse/shared.h"

namespace scalewatch::clickhouse {
namespace {

class Silent {
 public:
  Silent() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 16);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  ~Silent() {
    close(taken_);
    close(listener_);
  }
  void wait_for_a_request() { taken_ = accept(listener_, nullptr, nullptr); }
  [[nodiscard]] int port() const { return port_; }

 private:
  int listener_;
  int taken_ = -1;
  int port_ = 0;
};

// Questions must not queue up behind one that hangs, nor a server's end wait for it.
TEST(Hang, WhoComesLaterFailsAndAnEndWaitsForNobody) {
  Silent silent;
  Options options;
  options.hosts = "http://127.0.0.1:" + std::to_string(silent.port());
  options.timeout = std::chrono::minutes(10);
  const app::SystemClock clock;
  Shared shared(options, clock);
  auto first = std::async(std::launch::async, [&] { shared.find_run("run"); });
  silent.wait_for_a_request();
  for (int i = 0; i < 3; ++i) EXPECT_THROW(shared.list_runs(10, Shared::Which::kAll), engine::StoreError);
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "it still waits";
  shared.cancel();
  EXPECT_THROW(first.get(), engine::StoreError);
}

}  // namespace
}  // namespace scalewatch::clickhouse

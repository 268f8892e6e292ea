#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <thread>

#include "server/cli/client.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// An address that nobody listens on: its server is gone.
std::string closed_address() {
  return FakeServer(FakeData{}).address();
}

TEST(Errors, NoServerSaysHowToGetOne) {
  const auto address = closed_address();
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"runs"}, {"show", "r"}, {"doctor", "--run", "r"}, {"tail", "r"}, {"alerts"}, {"alerts", "watch"}}) {
    const auto result = run_command(address, arguments);
    EXPECT_EQ(result.code, kExitNothing) << arguments[0];
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(HasSubstr("no scalewatchd at " + address), HasSubstr("--server"), HasSubstr("start one")));
  }
}

TEST(Errors, UnknownRunNamesTheNearest) {
  const FakeServer server(collapsing_run());
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"show", "digits-hut"}, {"doctor", "--run", "digits-hut"}}) {
    const auto result = run_command(server.address(), arguments);
    EXPECT_EQ(result.code, kExitNothing);
    EXPECT_EQ(result.err, "scalewatch: no run \"digits-hut\"; nearest: digits-hot\n");
  }
}

TEST(Errors, ARunWithoutAttemptsIsNotCalledHealthy) {
  FakeData data;
  data.run.mutable_run()->set_name("fresh");
  const FakeServer server(std::move(data));
  const auto result = run_command(server.address(), {"doctor", "--run", "fresh"});
  EXPECT_EQ(result.code, kExitNothing);
  EXPECT_THAT(result.err, HasSubstr("no attempt yet"));
}

TEST(Errors, AServerOfAnotherKindIsNamed) {
  // A listener that answers as a web server does, to whatever it is sent.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::jthread web([&] {
    for (int peer = accept(listener, nullptr, nullptr); peer >= 0; peer = accept(listener, nullptr, nullptr)) {
      const std::string_view answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
      EXPECT_EQ(send(peer, answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
      close(peer);
    }
  });
  const auto result = run_command("127.0.0.1:" + std::to_string(ntohs(address.sin_port)), {"runs"});
  EXPECT_EQ(result.code, kExitNothing);
  EXPECT_THAT(result.err, AllOf(HasSubstr("an HTTP/1 server answers"), HasSubstr("--listen")));
  shutdown(listener, SHUT_RDWR);
  web.join();
  close(listener);
}

struct Answer {
  int status;
  int exit_code;
  const char* says;
};

TEST(Errors, EveryCauseHasItsMessage) {
  FakeServer server(FakeData{});
  server.data().fail_message = "the server's \x1b[31mwords";
  const Answer answers[] = {
      {3, kExitUsage, "the server's \\x1b[31mwords"},    // INVALID_ARGUMENT
      {4, kExitNothing, "within 10 s"},                  // DEADLINE_EXCEEDED
      {5, kExitNothing, "the server's \\x1b[31mwords"},  // NOT_FOUND
      {12, kExitNothing, "check --server"},              // UNIMPLEMENTED
      {13, kExitNothing, "failed (code 13)"},            // INTERNAL
      {14, kExitNothing, "is not available"},            // UNAVAILABLE, said by the server itself
  };
  for (const auto& answer : answers) {
    server.data().fail_code = answer.status;
    const auto result = run_command(server.address(), {"runs"});
    EXPECT_EQ(result.code, answer.exit_code) << answer.status;
    EXPECT_THAT(result.err, HasSubstr(answer.says));
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  }
}

TEST(Errors, UsageIsCheckedBeforeAnythingIsAsked) {
  const FakeServer server(collapsing_run());
  const std::vector<std::vector<std::string>> wrong{{},
                                                    {"rnus"},
                                                    {"show"},
                                                    {"doctor"},
                                                    {"runs", "--limit", "0"},
                                                    {"runs", "--limit", "many"},
                                                    {"runs", "--min-severity", "dreadful"},
                                                    {"top", "r", "--by", "beauty"},
                                                    {"history", "r", "t", "--stat", "mood"},
                                                    {"history", "r", "t", "--rank", "-1"},
                                                    {"history", "r", "t", "--points", "10001"},
                                                    {"alerts", "ack", "id"},
                                                    {"show", "r", "extra"},
                                                    {"attempt", "r", "x"},
                                                    {"export", "r", "--format", "parquet"},
                                                    {"alerts", "--state", "lost"},
                                                    {"completion", "tcsh"},
                                                    {"watch", "--interval", "0"},
                                                    {"compare", "r"},
                                                    {"runs", "--width", "-3"}};
  for (const auto& arguments : wrong) {
    const auto result = run_command(server.address(), arguments);
    EXPECT_EQ(result.code, kExitUsage) << testing::PrintToString(arguments);
    EXPECT_NE(result.err, "");
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(server.calls, 0);
}

TEST(Errors, ServerMustBeHostAndPort) {
  for (const char* address : {"", "localhost", ":7462", "localhost:", "localhost:0", "localhost:70000", "a:1x", "::1:7462",
                              "http://localhost:7462", "a\x1b:"}) {
    const auto result = run_command(address, {"runs"});
    EXPECT_EQ(result.code, kExitUsage) << address;
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  }
}

TEST(Errors, HelpIsNoError) {
  const auto help = run_command("127.0.0.1:1", {"--help"});
  EXPECT_EQ(help.code, kExitOk);
  EXPECT_THAT(help.out, AllOf(HasSubstr("doctor"), HasSubstr("SCALEWATCH_SERVER"), HasSubstr("Exit codes")));
  EXPECT_THAT(run_command("127.0.0.1:1", {"history", "--help"}).out, HasSubstr("--stat"));
}

}  // namespace
}  // namespace scalewatch::cli

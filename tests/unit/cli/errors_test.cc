#include <gmock/gmock.h>

#include <cstdlib>

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

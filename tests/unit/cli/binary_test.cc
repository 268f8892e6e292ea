// The real executable, as a shell would start it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "server/cli/client.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/fake_server.h"

namespace scalewatch::cli {
namespace {

class Process {
 public:
  Process(std::vector<std::string> arguments, const std::string& server) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    arguments.insert(arguments.begin(), SCALEWATCH_BINARY);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string variable = "SCALEWATCH_SERVER=" + server;
    std::string sanitizer = "TSAN_OPTIONS=";
    if (const char* options = std::getenv("TSAN_OPTIONS"); options != nullptr) sanitizer += options;
    char* environment[] = {variable.data(), sanitizer.data(), nullptr};
    const int failed = posix_spawn(&pid_, SCALEWATCH_BINARY, &actions, nullptr, argv.data(), environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    if (failed != 0) throw std::runtime_error("posix_spawn " SCALEWATCH_BINARY);
  }
  ~Process() { close(output_); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until the output holds `wanted` or ends.
  const std::string& read_until(const std::string& wanted) {
    char buffer[4096];
    while (text_.find(wanted) == std::string::npos) {
      const auto got = read(output_, buffer, sizeof buffer);
      if (got <= 0) break;
      text_.append(buffer, static_cast<std::size_t>(got));
    }
    return text_;
  }
  void signal(int number) const { kill(pid_, number); }
  // Reads to the end and returns the exit code, or 128 + the signal that ended it.
  int wait() {
    read_until("\x01never");
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
  std::string text_;
};

TEST(Binary, AsksTheServerOfTheEnvironment) {
  const FakeServer server(collapsing_run());
  Process process({"doctor", "--run", "digits-hot"}, server.address());
  EXPECT_EQ(process.wait(), kExitCritical);
  EXPECT_THAT(process.text(), testing::HasSubstr("NonFiniteApplied"));
  EXPECT_EQ(process.text().find('\x1b'), std::string::npos);  // a pipe is no terminal
}

TEST(Binary, CtrlCEndsATailWithSuccess) {
  auto data = collapsing_run();
  data.hold_streams = true;
  const FakeServer server(std::move(data));
  for (const int number : {SIGINT, SIGTERM}) {
    Process process({"tail", "digits-hot"}, server.address());
    EXPECT_THAT(process.read_until("12 events left out"), testing::HasSubstr("attempt 61"));
    process.signal(number);
    EXPECT_EQ(process.wait(), kExitOk) << process.text();
  }
}

TEST(Binary, WrongUseHasItsExitCode) {
  Process process({"frobnicate"}, "127.0.0.1:1");
  EXPECT_EQ(process.wait(), kExitUsage);
  EXPECT_THAT(process.text(), testing::HasSubstr("--help"));
}

}  // namespace
}  // namespace scalewatch::cli

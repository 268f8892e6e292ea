// scalewatchd as its users run it: a process with flags, ports, signals and an exit code.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "scalewatch/v1/history.grpc.pb.h"
#include "scalewatch/v1/ingest.grpc.pb.h"
#include "tests/unit/http/fakes.h"

namespace scalewatch::app {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string read_file(const fs::path& path) {
  std::stringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// A folder of the test's own.
class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "scalewatchd_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

class Daemon {
 public:
  Daemon(const Folder& folder, const std::string& name, std::vector<std::string> arguments, const std::string& ports = {})
      : out_(folder / (name + ".out")),
        err_(folder / (name + ".err")),
        ports_(ports.empty() ? folder / (name + ".ports") : fs::path(ports)) {
    arguments.insert(arguments.begin(), {SCALEWATCHD, "--port-file", ports_.string()});
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_EQ(posix_spawn(&pid_, SCALEWATCHD, &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
  }
  ~Daemon() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  // Waits until it listens; false when it ended instead.
  bool listening() {
    while (!fs::exists(ports_)) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const std::string text = read_file(ports_);
    grpc_ = static_cast<std::uint16_t>(std::stoul(text.substr(5)));
    http_ = static_cast<std::uint16_t>(std::stoul(text.substr(text.find("http=") + 5)));
    return true;
  }
  void signal(int number) const { kill(pid_, number); }
  // The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  [[nodiscard]] std::string out() const { return read_file(out_); }
  [[nodiscard]] std::string err() const { return read_file(err_); }
  [[nodiscard]] std::string grpc_address() const { return "127.0.0.1:" + std::to_string(grpc_); }
  [[nodiscard]] std::uint16_t http_port() const { return http_; }
  [[nodiscard]] bool has_port_file() const { return fs::exists(ports_); }

 private:
  const fs::path out_;
  const fs::path err_;
  const fs::path ports_;
  pid_t pid_ = 0;
  std::uint16_t grpc_ = 0;
  std::uint16_t http_ = 0;
};

struct DaemonTest : ::testing::Test {
  Folder folder;
  std::string data = (folder / "data").string();
  [[nodiscard]] std::vector<std::string> flags(std::vector<std::string> more = {}) const {
    std::vector<std::string> out = {"--data-dir", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  // Ends by itself with that code and exactly one line.
  void expect_fault(Daemon& daemon, int code, const std::string& cause) {
    EXPECT_FALSE(daemon.listening());
    EXPECT_EQ(daemon.wait(), code);
    const std::string err = daemon.err();
    EXPECT_THAT(err, StartsWith("scalewatchd: "));
    EXPECT_THAT(err, HasSubstr(cause));
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    EXPECT_EQ(daemon.out(), "");
  }
};

TEST_F(DaemonTest, ServesAndStopsCleanly) {
  Daemon daemon(folder, "a", flags());
  ASSERT_TRUE(daemon.listening()) << daemon.err();
  http::Client http(daemon.http_port());
  EXPECT_EQ(http.get("/readyz").status, 200u);
  EXPECT_THAT(http.get("/metrics").body, HasSubstr("scalewatch_build_info{version=\"" SCALEWATCH_VERSION "\"} 1"));
  EXPECT_THAT(http.get("/api/v1/runs").body, StartsWith("{\"runs\":[]"));
  EXPECT_EQ(http.get("/api/v1/runs/nobody").status, 404u);

  auto channel = grpc::CreateChannel(daemon.grpc_address(), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  v1::ListRunsResponse runs;
  EXPECT_TRUE(v1::History::NewStub(channel)->ListRuns(&context, {}, &runs).ok());

  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_THAT(daemon.out(), HasSubstr("gRPC " + daemon.grpc_address() + ", HTTP http://127.0.0.1:"));
  EXPECT_THAT(daemon.out(), HasSubstr("data in " + data + "\n"));
  EXPECT_THAT(daemon.err(), HasSubstr("stopped"));
  EXPECT_FALSE(daemon.has_port_file());
}

TEST_F(DaemonTest, StreamsAreToldOfTheStop) {
  Daemon daemon(folder, "a", flags({"--log-format", "json"}));
  ASSERT_TRUE(daemon.listening()) << daemon.err();
  auto channel = grpc::CreateChannel(daemon.grpc_address(), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  auto stream = v1::Ingest::NewStub(channel)->Stream(&context);
  v1::ClientMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(1);
  hello.set_run("stopping");
  hello.set_world_size(1);
  hello.set_incarnation("0123456789abcdef");
  hello.set_incarnation_order(1);
  ASSERT_TRUE(stream->Write(message));
  v1::ServerMessage answer;
  ASSERT_TRUE(stream->Read(&answer));
  ASSERT_TRUE(answer.has_hello_ack()) << answer.ShortDebugString();
  http::Client http(daemon.http_port());
  EXPECT_THAT(http.get("/metrics").body, HasSubstr("scalewatch_ranks_connected{run=\"stopping\"} 1"));

  daemon.signal(SIGINT);
  bool told = false;
  while (stream->Read(&answer)) told |= answer.fault().cause() == v1::FAULT_CAUSE_SHUTTING_DOWN;
  EXPECT_TRUE(told);
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_THAT(daemon.err(), HasSubstr("\"message\":\"stopping\",\"signal\":\"2\"}"));
}

TEST_F(DaemonTest, RestartsOnItsOwnData) {
  for (const char* name : {"a", "b"}) {
    Daemon daemon(folder, name, flags());
    ASSERT_TRUE(daemon.listening()) << daemon.err();
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
  }
}

TEST_F(DaemonTest, PortsInUse) {
  Daemon first(folder, "first", flags());
  ASSERT_TRUE(first.listening()) << first.err();
  const std::string http = "127.0.0.1:" + std::to_string(first.http_port());
  const std::string other = (folder / "other").string();
  Daemon grpc_taken(folder, "grpc", {"--data-dir", other, "--listen", first.grpc_address(), "--http", "127.0.0.1:0"});
  expect_fault(grpc_taken, 1, "cannot listen for gRPC on " + first.grpc_address() + ": Address already in use");
  Daemon http_taken(folder, "http", {"--data-dir", other, "--listen", "127.0.0.1:0", "--http", http});
  expect_fault(http_taken, 1, "cannot listen for HTTP on " + http + ": Address already in use");
}

TEST_F(DaemonTest, DataFolderInUse) {
  Daemon first(folder, "first", flags());
  ASSERT_TRUE(first.listening()) << first.err();
  Daemon second(folder, "second", flags());
  expect_fault(second, 1, data);
}

TEST_F(DaemonTest, DataFolderThatCannotBeMade) {
  std::ofstream(folder / "file") << "x";
  data = (folder / "file" / "data").string();
  Daemon daemon(folder, "a", flags());
  expect_fault(daemon, 1, data);
}

TEST_F(DaemonTest, PortFileThatCannotBeWritten) {
  Daemon daemon(folder, "a", flags({"--log-level", "off"}), "/nonexistent/ports");
  expect_fault(daemon, 1, "cannot write the port file /nonexistent/ports: No such file or directory");
}

TEST_F(DaemonTest, Check) {
  Daemon daemon(folder, "a", flags({"--check"}));
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_EQ(daemon.out(), "the configuration is valid\n");
  EXPECT_FALSE(fs::exists(data));
}

TEST_F(DaemonTest, BrokenConfiguration) {
  const std::string file = (folder / "bad.yaml").string();
  std::ofstream(file) << "engine:\n  colour: red\n";
  Daemon daemon(folder, "a", flags({"--config", file}));
  expect_fault(daemon, 2, file + ":2: unknown key engine.colour");
  Daemon flag(folder, "b", flags({"--colour"}));
  expect_fault(flag, 2, "--colour");
}

}  // namespace
}  // namespace scalewatch::app

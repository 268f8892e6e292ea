// How trainers end, fork and come back, each as a process of its own: lifetime_trainer.cc and lifetime_host.cc.
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/client/fake_server.h"

extern char** environ;

namespace scalewatch::client_test {
namespace {

struct Ended {
  int status = -1;     // as waitpid gives it
  std::string output;  // standard output and error of the process and its children
};

// Runs a program to its end and the end of all that inherited its output.
Ended run(std::vector<std::string> command) {
  int out[2];
  if (pipe(out) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, out[0]);
  posix_spawn_file_actions_addclose(&actions, out[1]);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  Ended ended;
  if (error == 0) {
    pollfd waiting{out[0], POLLIN, 0};
    char buffer[4096];
    ssize_t got = 0;
    do {
      if (poll(&waiting, 1, 60'000) <= 0) {
        ended.output += "(it hangs)";
        kill(child, SIGKILL);
        break;
      }
      got = read(out[0], buffer, sizeof buffer);
      if (got > 0) ended.output.append(buffer, static_cast<std::size_t>(got));
    } while (got > 0);
    waitpid(child, &ended.status, 0);
  }
  close(out[0]);
  return ended;
}

Ended train(const std::string& way, const FakeServer& server) {
  return run({SCALEWATCH_LIFETIME_TRAINER, way, server.address()});
}

// Every client is a new one, of which nothing is durable yet.
FakeServer::Behaviour newcomers() {
  FakeServer::Behaviour behaviour;
  behaviour.resume_after = 0;
  return behaviour;
}

std::size_t goodbyes(const FakeServer& server) {
  const auto messages = server.messages();
  return static_cast<std::size_t>(
      std::count_if(messages.begin(), messages.end(), [](const v1::ClientMessage& m) { return m.has_goodbye(); }));
}

std::vector<std::uint64_t> seqs(const std::vector<v1::Report>& reports) {
  std::vector<std::uint64_t> found;
  found.reserve(reports.size());
  for (const v1::Report& report : reports) found.push_back(report.seq());
  return found;
}

std::vector<std::uint64_t> up_to(std::uint64_t last) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t seq = 1; seq <= last; ++seq) all.push_back(seq);
  return all;
}

struct Way {
  std::string name;
  int signal = 0;              // that ends it; 0 = it exits with 0
  std::size_t reports = 0;     // that must have come
  bool goodbye = false;        // the library was asked to close
  std::string output = "";     // all of it
  bool output_is_ours = true;  // false: the run time prints something as well
};
// So that ctest's names say it, and not bytes that change with every build.
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class Ends : public testing::TestWithParam<Way> {};

TEST_P(Ends, AsPromised) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if (GetParam().name == std::string("fork"))
    GTEST_SKIP() << "a forked child may find a lock of GCC 12's sanitizers taken for ever";
#endif
  FakeServer server;
  const Ended ended = train(GetParam().name, server);
  if (GetParam().signal == 0) {
    EXPECT_TRUE(WIFEXITED(ended.status)) << "signal " << WTERMSIG(ended.status);
    EXPECT_EQ(WEXITSTATUS(ended.status), 0);
  } else {
    EXPECT_TRUE(WIFSIGNALED(ended.status)) << "exit " << WEXITSTATUS(ended.status);
    EXPECT_EQ(WTERMSIG(ended.status), GetParam().signal);
  }
  if (GetParam().output_is_ours) {
    EXPECT_EQ(ended.output, GetParam().output);
  }
  EXPECT_EQ(seqs(server.reports(GetParam().reports)), up_to(server.reports(0).size()));
  EXPECT_GE(server.reports(0).size(), GetParam().reports);
  EXPECT_EQ(goodbyes(server), GetParam().goodbye ? 1U : 0U);
  EXPECT_TRUE(server.losses().empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, Ends,
                         testing::Values(Way{"return", 0, 5}, Way{"exit", 0, 5}, Way{"exit from a thread", 0, 5},
                                         Way{"SIGTERM handled", 0, 5}, Way{"in an attempt", 0, 5},
                                         // No code of ours runs: what was durable is all that is sure.
                                         Way{"_exit", 0, 1}, Way{"quick_exit", 0, 1}, Way{"SIGTERM", SIGTERM, 1},
                                         Way{"abort", SIGABRT, 1, false, "", false}, Way{"throw", SIGABRT, 1, false, "", false},
                                         // The C++ monitor says goodbye in its destructor.
                                         Way{"static", 0, 3, true}, Way{"thread_local", 0, 3, true},
                                         Way{"thread_local of a thread", 0, 3, true},
                                         Way{"closed from a destructor at exit", 0, 3, true, "closed at exit\n"},
                                         // Workers of data loaders.
                                         Way{"fork", 0, 10, true}, Way{"outlived exit", 0, 5, false, "worker refused\n"},
                                         Way{"outlived kill", SIGKILL, 1, false, "worker refused\n"},
                                         Way{"outlived close", 0, 5, true, "worker refused\n"}),
                         [](const auto& way) {
                           std::string name = way.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(Lifetime, ASilentServerHoldsNobodyBack) {
  FakeServer::Behaviour behaviour;
  behaviour.greet = false;
  FakeServer server(behaviour);
  EXPECT_EQ(train("exit unheard", server).status, 0);  // 40 monitors, closed together
  EXPECT_EQ(train("static", server).status, 0);
  EXPECT_TRUE(server.reports(0).empty());
}

TEST(Lifetime, ASignalHandlerMayExitInsideTheLibrary) {
  for (int i = 0; i < 10; ++i) {
    FakeServer server;
    const Ended ended = train("exit in an attempt", server);
    ASSERT_EQ(ended.status, 0) << ended.output;
  }
}

TEST(Lifetime, ASignalHandlerMayExitDuringClose) {
  FakeServer::Behaviour behaviour;
  behaviour.greet = false;
  FakeServer server(behaviour);
  for (int i = 0; i < 5; ++i) {
    const Ended ended = train("exit while closing", server);
    ASSERT_EQ(ended.status, 0) << ended.output;
  }
}

TEST(Lifetime, ChildrenOfAProcessThatOpenedNothingMayOpen) {
  FakeServer server;
  EXPECT_EQ(train("open in child", server).status, 0);
  std::set<std::string> runs;
  for (const auto& hello : server.hellos()) runs.insert(hello.run());
  EXPECT_EQ(runs, (std::set<std::string>{"one", "two"}));
  EXPECT_EQ(goodbyes(server), 2U);
}

TEST(Lifetime, FiftyOpensAndClosesLeakNeitherThreadsNorFiles) {
  FakeServer server(newcomers());
  const Ended ended = train("again and again", server);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(server.hellos().size(), 50U);
  EXPECT_EQ(server.reports(50).size(), 50U);
  EXPECT_EQ(goodbyes(server), 50U);
  std::set<std::string> incarnations;
  for (const auto& hello : server.hellos()) incarnations.insert(hello.incarnation());
  EXPECT_EQ(incarnations.size(), 50U);
}

TEST(Lifetime, TwoMonitorsOfOneProcessAreStrangers) {
  FakeServer first;
  FakeServer second;
  const Ended ended = run({SCALEWATCH_LIFETIME_TRAINER, "two at once", first.address(), second.address()});
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(seqs(first.reports(10)), up_to(10));
  EXPECT_EQ(seqs(second.reports(11)), up_to(11));
  for (const auto& report : first.reports(0)) EXPECT_EQ(report.loss(), 1);
  EXPECT_EQ(first.hellos().at(0).run(), "first");
  EXPECT_EQ(second.hellos().at(0).run(), "second");
}

TEST(Lifetime, ThreadsOpenTheirOwn) {
  FakeServer server(newcomers());
  const Ended ended = train("open from threads", server);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(server.reports(24).size(), 24U);
  EXPECT_EQ(goodbyes(server), 8U);
}

TEST(Plugin, IsUsedClosedAndUnloadedAgainAndAgain) {
  FakeServer server(newcomers());
  const Ended ended = run({SCALEWATCH_LIFETIME_HOST, "closed and unloaded", SCALEWATCH_LIBRARY, server.address()});
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(server.reports(9).size(), 9U);
  EXPECT_EQ(goodbyes(server), 3U);
}

TEST(Plugin, SurvivesBeingUnloadedWhileOpen) {
  FakeServer server;
  const Ended ended = run({SCALEWATCH_LIFETIME_HOST, "unloaded while open", SCALEWATCH_LIBRARY, server.address()});
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(server.reports(3).size(), 3U);
  EXPECT_EQ(goodbyes(server), 0U);
}

TEST(Plugin, IsClosedAfterItsOwnStaticsAreGone) {
  FakeServer server;
  const Ended ended = run({SCALEWATCH_LIFETIME_HOST, "closed late", SCALEWATCH_LIBRARY, server.address()});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "closed late, not opened again\n");
  EXPECT_EQ(seqs(server.reports(3)), up_to(3));
}

TEST(Plugin, StartsNothingOnceTheProcessEnds) {
  FakeServer server;
  const Ended ended = run({SCALEWATCH_LIFETIME_HOST, "first used late", SCALEWATCH_LIBRARY, server.address()});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "closed late, not opened again\n");
  EXPECT_TRUE(server.hellos().empty());
}

}  // namespace
}  // namespace scalewatch::client_test

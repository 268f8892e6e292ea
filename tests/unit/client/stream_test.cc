// Connections that come, go and never come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"

namespace scalewatch::client_test {
namespace {

MonitorOptions options(const std::string& address) {
  MonitorOptions made;
  made.run = "run";
  made.server = address;
  return made;
}

void attempts(Monitor& monitor, std::uint32_t tensor, int count) {
  const std::vector<float> data(64, 1.0F);
  for (int i = 0; i < count; ++i) {
    monitor.begin_attempt(i);
    monitor.observe(tensor, data.data(), data.size());
    monitor.set_loss(i);
    monitor.end_attempt();
  }
}

std::uint32_t tensor_of(Monitor& monitor) {
  return monitor.add_tensor({"w", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 64, 0, "", "", ""});
}

template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Stream, GoodbyeComesLastAndCloseIsTrue) {
  FakeServer server;
  Monitor monitor(options(server.address()));
  attempts(monitor, tensor_of(monitor), 50);
  EXPECT_TRUE(monitor.close(20'000, "early stop"));
  const auto messages = server.messages();
  ASSERT_FALSE(messages.empty());
  ASSERT_TRUE(messages.back().has_goodbye());
  EXPECT_EQ(messages.back().goodbye().last_seq(), 50U);
  EXPECT_EQ(messages.back().goodbye().reason(), "early stop");
  EXPECT_EQ(server.reports(50).size(), 50U);
}

TEST(Stream, AGoodbyeThatAServerTookWithItIsSaidAgain) {
  FakeServer::Behaviour leaves;
  leaves.loses_goodbye = true;
  FakeServer server(leaves);
  Monitor monitor(options(server.address()));
  attempts(monitor, tensor_of(monitor), 5);
  EXPECT_TRUE(monitor.wait_durable(20'000));
  EXPECT_TRUE(monitor.close(20'000, "finished"));
  int goodbyes = 0;
  for (const auto& message : server.messages()) goodbyes += message.has_goodbye() ? 1 : 0;
  EXPECT_EQ(goodbyes, 2);
  EXPECT_EQ(server.hellos().size(), 2U);
  EXPECT_EQ(server.reports(5).size(), 5U);
}

TEST(Stream, ResumesAfterARestartWithoutRepeatsOrGaps) {
  FakeServer::Behaviour silent;
  silent.ack = false;
  auto server = std::make_unique<FakeServer>(silent);
  const int port = server->port();
  Monitor monitor(options(server->address()));
  const auto tensor = tensor_of(monitor);
  attempts(monitor, tensor, 10);
  ASSERT_EQ(server->reports(10).size(), 10U);
  const auto first_hello = server->hellos().front();
  server.reset();
  attempts(monitor, tensor, 5);

  FakeServer::Behaviour restarted;
  restarted.resume_after = 6;
  restarted.need_table = false;
  FakeServer again(restarted, port);
  ASSERT_EQ(again.port(), port);
  const auto reports = again.reports(9);
  ASSERT_EQ(reports.size(), 9U);
  for (std::size_t i = 0; i < reports.size(); ++i) EXPECT_EQ(reports[i].seq(), 7 + i);
  const auto hello = again.hellos().front();
  EXPECT_EQ(hello.incarnation(), first_hello.incarnation());
  EXPECT_EQ(hello.incarnation_order(), first_hello.incarnation_order());
  EXPECT_EQ(hello.table_hash(), first_hello.table_hash());
  EXPECT_GE(hello.last_seq(), 10U);
  for (const auto& message : again.messages()) EXPECT_FALSE(message.has_table());
  EXPECT_TRUE(monitor.wait_durable(20'000));
  EXPECT_EQ(monitor.stats().durable_attempts, 15U);
  EXPECT_TRUE(monitor.close());
}

TEST(Stream, ServerThatComesLateGetsEverything) {
  int port = 0;
  {
    const FakeServer gone;
    port = gone.port();
  }
  Monitor monitor(options("127.0.0.1:" + std::to_string(port)));
  attempts(monitor, tensor_of(monitor), 20);
  ASSERT_TRUE(eventually([&] { return monitor.stats().connection == SCALEWATCH_WAITING; }));
  EXPECT_STRNE(monitor.stats().last_fault, "");
  FakeServer server({}, port);
  ASSERT_EQ(server.reports(20).size(), 20U);
  EXPECT_TRUE(monitor.wait_durable(20'000));
  EXPECT_EQ(monitor.stats().connects, 1U);
  EXPECT_TRUE(monitor.close());
}

TEST(Stream, GoesWhereItsRunIsAndBackToTheListWhenThatServerIsGone) {
  auto owner = std::make_unique<FakeServer>();
  FakeServer::Behaviour elsewhere;
  elsewhere.hello_fault = v1::FAULT_CAUSE_MOVED;
  elsewhere.moved_to = owner->address();
  FakeServer first(elsewhere);
  int gone = 0;
  {
    const FakeServer none;
    gone = none.port();
  }
  Monitor monitor(options("127.0.0.1:" + std::to_string(gone) + "," + first.address()));
  const auto tensor = tensor_of(monitor);
  attempts(monitor, tensor, 5);
  ASSERT_EQ(owner->reports(5).size(), 5U);
  EXPECT_TRUE(monitor.wait_durable(20'000));
  EXPECT_EQ(first.hellos().size(), 1U);
  EXPECT_EQ(monitor.stats().connects, 1U);
  // The owner dies, and the other one takes the run.
  owner.reset();
  FakeServer::Behaviour taken;
  taken.resume_after = 3;
  first.set(taken);
  attempts(monitor, tensor, 4);
  const auto reports = first.reports(4);
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports.front().seq(), 6U);
  EXPECT_TRUE(monitor.close());
}

TEST(Stream, FullBufferIsThinnedThenLostAndTheServerIsTold) {
  int port = 0;
  {
    const FakeServer gone;
    port = gone.port();
  }
  MonitorOptions small = options("127.0.0.1:" + std::to_string(port));
  small.buffer_bytes = 64 << 10;
  Monitor monitor(small);
  const auto tensor = tensor_of(monitor);
  for (int i = 0; i < 20; ++i) {
    attempts(monitor, tensor, 100);
    // Lets the client's thread keep up, so that the buffer overflows and not the queue.
    ASSERT_TRUE(eventually([&] { return monitor.stats().attempts > 0 && monitor.stats().buffered_bytes > 0; }));
  }
  ASSERT_TRUE(eventually([&] { return monitor.stats().dropped_buffer_full > 0; }));
  EXPECT_GT(monitor.stats().reports_thinned, 0U);
  EXPECT_LE(monitor.stats().buffered_bytes, 64U << 10);

  FakeServer server({}, port);
  ASSERT_TRUE(monitor.wait_durable(20'000));
  const auto stats = monitor.stats();
  std::set<std::uint64_t> seen;
  std::uint64_t lost = 0;
  for (const auto& loss : server.losses()) {
    EXPECT_TRUE(loss.cause() == v1::LOSS_CAUSE_BUFFER_FULL || loss.cause() == v1::LOSS_CAUSE_QUEUE_FULL);
    for (auto seq = loss.first_seq(); seq <= loss.last_seq(); ++seq) EXPECT_TRUE(seen.insert(seq).second);
    lost += loss.last_seq() - loss.first_seq() + 1;
  }
  for (const auto& report : server.reports(1)) EXPECT_TRUE(seen.insert(report.seq()).second);
  EXPECT_EQ(lost, stats.dropped_buffer_full + stats.dropped_queue_full);
  EXPECT_EQ(seen.size(), 2000U);
  EXPECT_EQ(*seen.rbegin(), 2000U);
  EXPECT_EQ(server.losses().front().first_seq(), 1U);  // the oldest went
  EXPECT_TRUE(monitor.close());
}

TEST(Stream, UnknownHostIsNoError) {
  Monitor monitor(options("host.invalid:7462"));
  attempts(monitor, tensor_of(monitor), 3);
  EXPECT_FALSE(monitor.close(5000));
}

TEST(Stream, CloseIsBoundedWhenNobodyAnswers) {
  FakeServer::Behaviour deaf;
  deaf.greet = false;
  FakeServer server(deaf);
  Monitor monitor(options(server.address()));
  attempts(monitor, tensor_of(monitor), 3);
  ASSERT_TRUE(server.wait([](const FakeServer::Messages& messages) { return !messages.empty(); }));
  EXPECT_FALSE(monitor.close(200));
  EXPECT_THAT(scalewatch_last_error(), ::testing::HasSubstr("when the time was over"));
}

TEST(Stream, NeverAckedReportsMakeCloseFail) {
  FakeServer::Behaviour silent;
  silent.ack = false;
  FakeServer server(silent);
  Monitor monitor(options(server.address()));
  attempts(monitor, tensor_of(monitor), 3);
  EXPECT_FALSE(monitor.close(5000));
  EXPECT_TRUE(server.messages().back().has_goodbye());
}

TEST(Stream, ReportsLargerThanTheServerTakesAreThinned) {
  FakeServer::Behaviour strict;
  strict.max_message_bytes = 400;
  FakeServer server(strict);
  Monitor monitor(options(server.address()));
  std::vector<std::uint32_t> tensors;
  tensors.reserve(50);
  for (int i = 0; i < 50; ++i) {
    tensors.push_back(monitor.add_tensor({"w" + std::to_string(i), SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 1, 0, "", "", ""}));
  }
  const float one = 1;
  monitor.begin_attempt(1);
  for (const auto tensor : tensors) monitor.observe(tensor, &one, 1);
  monitor.end_attempt();
  ASSERT_TRUE(monitor.wait_durable(20'000));
  EXPECT_EQ(server.reports(1).front().blocks_size(), 0);
  EXPECT_EQ(monitor.stats().reports_thinned, 1U);
}

TEST(Stream, ForkedChildrenNeverTouchIt) {
  FakeServer server;
  Monitor monitor(options(server.address()));
  const auto tensor = tensor_of(monitor);
  attempts(monitor, tensor, 1);
  ASSERT_TRUE(monitor.wait_durable(20'000));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    scalewatch_options other{};
    other.size = sizeof other;
    other.run = "child";
    scalewatch_monitor* opened = nullptr;
    const bool refused = scalewatch_begin_attempt(monitor.handle(), 1) == SCALEWATCH_FORKED &&
                         scalewatch_end_attempt(monitor.handle()) == SCALEWATCH_FORKED &&
                         scalewatch_open(&other, &opened) == SCALEWATCH_FORKED &&
                         scalewatch_close(monitor.handle(), 1000, nullptr) == SCALEWATCH_FORKED;
    _exit(refused ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  attempts(monitor, tensor, 1);
  EXPECT_TRUE(monitor.close(20'000));
  EXPECT_EQ(server.reports(2).size(), 2U);
  EXPECT_EQ(server.hellos().size(), 1U);
}

TEST(Stream, ExitWithoutCloseSendsWhatIsLeftAndNoGoodbye) {
  FakeServer server;
  const std::string command = std::string(SCALEWATCH_EXIT_TRAINER) + " " + server.address();
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  EXPECT_EQ(server.reports(5).size(), 5U);
  for (const auto& message : server.messages()) EXPECT_FALSE(message.has_goodbye());
}

}  // namespace
}  // namespace scalewatch::client_test

// Reports that outlast the server's absence, and the trainer itself, on disk.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"
#include "tests/unit/client/spool_trainer.h"

namespace scalewatch::client_test {
namespace {

constexpr int kMoreThanMemory = 800;  // attempts of train()

int free_port() {
  const FakeServer gone;
  return gone.port();
}

class Spooled : public testing::Test {
 protected:
  Spooled() {
    std::string name = (std::filesystem::temp_directory_path() / "scalewatch-spool-XXXXXX").string();
    directory = mkdtemp(name.data());
  }
  ~Spooled() override { std::filesystem::remove_all(directory); }

  [[nodiscard]] MonitorOptions options() const {
    MonitorOptions made;
    made.run = "run";
    made.server = "127.0.0.1:" + std::to_string(port);
    made.buffer_bytes = 1 << 20;
    made.spool_dir = directory;
    made.spool_keep_free_bytes = 1;
    return made;
  }

  // A start that dies with reports in its spool; its wall clock is so many seconds ahead.
  void die_with_reports(int ahead) const {
    const std::string command = std::string(SCALEWATCH_SPOOL_TRAINER) + " 127.0.0.1:" + std::to_string(port) + " " +
                                directory.string() + " " + std::to_string(kMoreThanMemory) + " " + std::to_string(ahead);
    const int status = std::system(("exec " + command).c_str());
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }

  [[nodiscard]] bool nothing_left() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (entry.is_regular_file()) return false;
    }
    return true;
  }

  std::filesystem::path directory;
  int port = free_port();
};

// Every attempt up to count is there once, in order and in full.
void expect_whole(const std::vector<v1::Report>& reports, std::uint64_t count) {
  ASSERT_EQ(reports.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(reports[i].seq(), i + 1);
    ASSERT_EQ(reports[i].attempt(), i + 1);
    ASSERT_EQ(reports[i].statistics_lost(), v1::LOSS_CAUSE_UNSPECIFIED) << i;
    ASSERT_EQ(reports[i].blocks_size(), 1);
    ASSERT_EQ(reports[i].blocks(0).count(), 50U);
  }
}

TEST_F(Spooled, WhatMemoryCantHoldComesInOrderAndInFull) {
  Monitor monitor(options());
  train_to_spool(monitor, kMoreThanMemory);
  for (int i = 0; i < 1000 && monitor.stats().spooled_bytes == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GT(monitor.stats().spooled_bytes, 0U);
  EXPECT_LE(monitor.stats().buffered_bytes, 1U << 20);
  FakeServer server({}, port);
  EXPECT_TRUE(monitor.wait_durable(60'000));
  expect_whole(server.reports(kMoreThanMemory), kMoreThanMemory);
  EXPECT_EQ(monitor.stats().durable_attempts, kMoreThanMemory);
  EXPECT_LT(monitor.stats().spooled_bytes, 4096U);  // whose they are and the tensors' names, until the end
  EXPECT_TRUE(monitor.close());
  EXPECT_TRUE(nothing_left());
}

TEST_F(Spooled, HealthyRunLeavesNothingBehind) {
  const FakeServer server({}, port);
  Monitor monitor(options());
  train_to_spool(monitor, 20);
  EXPECT_TRUE(monitor.close(20'000));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Spooled, WhatWasNotSentAtTheEndGoesFirstAtTheNextStart) {
  {
    Monitor monitor(options());
    train_to_spool(monitor, 30);  // fits in memory
    EXPECT_FALSE(monitor.close(0));
  }
  EXPECT_FALSE(nothing_left());
  FakeServer server({}, port);
  Monitor monitor(options());
  train_to_spool(monitor, 5);
  EXPECT_TRUE(monitor.close(60'000));
  const auto reports = server.reports(35);
  ASSERT_EQ(reports.size(), 35U);
  expect_whole({reports.begin(), reports.begin() + 30}, 30);
  expect_whole({reports.begin() + 30, reports.end()}, 5);
  const auto hellos = server.hellos();
  ASSERT_EQ(hellos.size(), 2U);
  EXPECT_NE(hellos[0].incarnation(), hellos[1].incarnation());
  EXPECT_LT(hellos[0].incarnation_order(), hellos[1].incarnation_order());
  EXPECT_TRUE(nothing_left());
}

TEST_F(Spooled, SurvivesTheTrainersDeath) {
  die_with_reports(0);
  FakeServer server({}, port);
  Monitor monitor(options());
  train_to_spool(monitor, 1);
  EXPECT_TRUE(monitor.close(60'000));
  auto reports = server.reports(2);
  ASSERT_GT(reports.size(), 1U);
  reports.pop_back();  // the new client's
  expect_whole(reports, reports.size());
  EXPECT_TRUE(nothing_left());
}

// Whose process is gone decides, not whose clock was behind.
TEST_F(Spooled, WhatAStartLeftWhoseClockWasAheadIsSent) {
  die_with_reports(24 * 3600);
  FakeServer server({}, port);
  Monitor monitor(options());
  train_to_spool(monitor, 1);
  EXPECT_TRUE(monitor.close(60'000));
  const auto hellos = server.hellos();
  ASSERT_EQ(hellos.size(), 2U);
  EXPECT_GT(hellos[0].incarnation_order(), hellos[1].incarnation_order()) << "the clock was not ahead";
  EXPECT_GT(server.reports(2).size(), 1U);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Spooled, LeftoverThatTheServerFencesIsDropped) {
  {
    Monitor monitor(options());
    train_to_spool(monitor, 30);
    EXPECT_FALSE(monitor.close(0));
  }
  FakeServer::Behaviour fencing;
  fencing.hello_fault = v1::FAULT_CAUSE_FENCED;
  FakeServer server(fencing, port);
  Monitor monitor(options());
  monitor.begin_attempt(1);
  monitor.end_attempt();
  ASSERT_TRUE(server.wait([](const FakeServer::Messages& messages) { return !messages.empty(); }));
  server.set({});
  // The server may have fenced the new client too, had it come in between: this one comes second and is taken or stopped.
  monitor.close(60'000);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Spooled, BeyondItsBoundItThinsAndSaysSo) {
  MonitorOptions small = options();
  small.buffer_bytes = 128 << 10;
  small.spool_bytes = 128 << 10;
  Monitor monitor(small);
  train_to_spool(monitor, 600);
  for (int i = 0; i < 1000 && monitor.stats().reports_thinned == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(monitor.stats().spooled_bytes, 128U << 10);
  EXPECT_LE(monitor.stats().buffered_bytes, 128U << 10);
  FakeServer server({}, port);
  EXPECT_TRUE(monitor.wait_durable(60'000));
  std::set<std::uint64_t> seen;
  bool limited = false;
  for (const auto& report : server.reports(1)) {
    EXPECT_TRUE(seen.insert(report.seq()).second);
    limited = limited || report.statistics_lost() == v1::LOSS_CAUSE_SPOOL_LIMIT;
  }
  for (const auto& loss : server.losses()) {
    for (auto seq = loss.first_seq(); seq <= loss.last_seq(); ++seq) EXPECT_TRUE(seen.insert(seq).second);
    limited = limited || loss.cause() == v1::LOSS_CAUSE_SPOOL_LIMIT;
  }
  EXPECT_EQ(seen.size(), 600U);
  EXPECT_TRUE(limited);
}

}  // namespace
}  // namespace scalewatch::client_test

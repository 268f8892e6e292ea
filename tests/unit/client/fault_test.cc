// What the client does about each cause of a fault.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"

namespace scalewatch::client_test {
namespace {

MonitorOptions options(const FakeServer& server) {
  MonitorOptions made;
  made.run = "run";
  made.server = server.address();
  return made;
}

bool attempt(Monitor& monitor) {
  monitor.begin_attempt(1);
  monitor.set_loss(1);
  return monitor.end_attempt();
}

class StopsForGood : public testing::TestWithParam<v1::FaultCause> {};

TEST_P(StopsForGood, AfterOneTry) {
  FakeServer::Behaviour behaviour;
  behaviour.hello_fault = GetParam();
  FakeServer server(behaviour);
  Monitor monitor(options(server));
  EXPECT_TRUE(attempt(monitor));
  EXPECT_EQ(scalewatch_wait_durable(monitor.handle(), 20'000), SCALEWATCH_STOPPED);
  EXPECT_FALSE(attempt(monitor));  // harmless, and not sent
  // The client's thread counts what it finds queued in its own time.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto stats = monitor.stats();
  while (stats.dropped_stopped < 2 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stats = monitor.stats();
  }
  EXPECT_EQ(stats.connection, SCALEWATCH_CONN_STOPPED);
  EXPECT_EQ(stats.last_fault_cause, GetParam());
  EXPECT_STREQ(stats.last_fault, "refused by the test");
  EXPECT_EQ(stats.dropped_stopped, 2U);
  EXPECT_EQ(stats.buffered_bytes, 0U);
  EXPECT_FALSE(monitor.close(5000));
  EXPECT_EQ(server.hellos().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Causes, StopsForGood,
                         testing::Values(v1::FAULT_CAUSE_FENCED, v1::FAULT_CAUSE_BAD_HELLO, v1::FAULT_CAUSE_BAD_TABLE,
                                         v1::FAULT_CAUSE_LIMIT, v1::FAULT_CAUSE_PROTOCOL));

class ComesBack : public testing::TestWithParam<v1::FaultCause> {};

TEST_P(ComesBack, AndResumes) {
  FakeServer::Behaviour behaviour;
  behaviour.report_fault = GetParam();
  FakeServer server(behaviour);
  Monitor monitor(options(server));
  attempt(monitor);
  attempt(monitor);
  ASSERT_TRUE(server.wait([](const FakeServer::Messages& messages) { return messages.size() >= 2; }));
  server.set({});
  EXPECT_TRUE(monitor.wait_durable(20'000));
  EXPECT_GE(server.hellos().size(), 2U);
  EXPECT_EQ(monitor.stats().dropped_internal, 0U);
}

INSTANTIATE_TEST_SUITE_P(Causes, ComesBack, testing::Values(v1::FAULT_CAUSE_SEQ_GAP, v1::FAULT_CAUSE_SHUTTING_DOWN));

TEST(Fault, RefusedReportIsCountedAndTheStreamGoesOn) {
  FakeServer::Behaviour behaviour;
  behaviour.report_fault = v1::FAULT_CAUSE_BAD_REPORT;
  FakeServer server(behaviour);
  Monitor monitor(options(server));
  attempt(monitor);
  attempt(monitor);
  ASSERT_TRUE(monitor.wait_durable(20'000));
  EXPECT_EQ(monitor.stats().dropped_rejected, 1U);
  EXPECT_EQ(server.hellos().size(), 1U);
  EXPECT_EQ(server.reports(2).size(), 2U);
}

TEST(Fault, DirectiveToStop) {
  FakeServer::Behaviour behaviour;
  behaviour.stop_directive = true;
  behaviour.ack = false;
  FakeServer server(behaviour);
  Monitor monitor(options(server));
  attempt(monitor);
  EXPECT_EQ(scalewatch_wait_durable(monitor.handle(), 20'000), SCALEWATCH_STOPPED);
  EXPECT_FALSE(attempt(monitor));
}

}  // namespace
}  // namespace scalewatch::client_test

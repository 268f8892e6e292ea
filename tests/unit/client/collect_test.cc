// What is measured and sent by the trainer's sampling, the server's directives and the ring.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"

namespace scalewatch::client_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class Collect : public testing::Test {
 protected:
  MonitorOptions options(const std::string& server) {
    MonitorOptions made;
    made.run = "run";
    made.server = server;
    return made;
  }

  // Two gradients "a" and "b", one scaler with one optimizer.
  void declare(Monitor& monitor) {
    scaler = monitor.add_scaler("default", "pytorch");
    monitor.add_optimizer({});
    for (const char* name : {"a", "b"}) {
      ids.push_back(monitor.add_tensor({name, SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 1, 0, "", "", ""}));
    }
  }

  void attempt(Monitor& monitor, float a = 1, float b = 1, double found_inf = 0) {
    monitor.begin_attempt(++step);
    monitor.observe(ids[0], &a, 1);
    monitor.observe(ids[1], &b, 1);
    monitor.observe_optimizer(scaler, 0, found_inf, found_inf, found_inf == 0 ? SCALEWATCH_APPLIED : SCALEWATCH_SKIPPED);
    monitor.end_attempt();
  }

  // "ab" for an attempt whose report holds both; retrospective reports are kept apart.
  using Seen = std::map<std::uint64_t, std::string>;
  static Seen seen(const std::vector<v1::Report>& reports, bool retrospective = false) {
    Seen found;
    for (const v1::Report& report : reports) {
      if (report.retrospective() != retrospective) continue;
      std::set<char> names;
      for (const auto& block : report.blocks()) {
        for (std::uint32_t i = 0; i < block.count(); ++i) {
          const std::uint32_t id = block.ids().empty() ? block.first_id() + i : block.ids(static_cast<int>(i));
          names.insert(id == 0 ? 'a' : 'b');
        }
      }
      found[report.attempt()] = std::string(names.begin(), names.end());
    }
    return found;
  }

  std::uint32_t scaler = 0;
  std::vector<std::uint32_t> ids;
  int step = 0;
};

TEST_F(Collect, OwnSamplingMeasuresAndSendsByItsCadence) {
  FakeServer server;
  Monitor monitor(options(server.address()));
  SamplingOptions seldom;
  seldom.every = 3;
  monitor.add_sampling(seldom);
  SamplingOptions b_only_bad;
  b_only_bad.include = "b";
  b_only_bad.report_every = SCALEWATCH_NEVER;
  monitor.add_sampling(b_only_bad);
  declare(monitor);
  EXPECT_THROW(monitor.add_sampling(seldom), std::runtime_error);  // too late
  monitor.begin_attempt(++step);
  EXPECT_TRUE(monitor.wants(ids[0]));
  monitor.end_attempt();
  monitor.begin_attempt(++step);
  EXPECT_FALSE(monitor.wants(ids[0]));
  EXPECT_TRUE(monitor.wants(ids[1]));
  monitor.end_attempt();
  attempt(monitor);
  attempt(monitor);
  attempt(monitor, kInf, kInf);
  ASSERT_TRUE(monitor.wait_durable(20'000));
  // Attempt 5 is not one that measures a; b is not finite there, and fails: what was kept of it before comes along.
  const auto reports = server.reports(7);
  EXPECT_EQ(seen(reports), (Seen{{1, ""}, {2, ""}, {3, ""}, {4, "a"}, {5, "b"}}));
  EXPECT_EQ(seen(reports, true), (Seen{{3, "b"}, {4, "b"}}));
  EXPECT_EQ(monitor.stats().sampled_out, 2U);
  for (std::size_t i = 0; i < reports.size(); ++i) EXPECT_EQ(reports[i].seq(), i + 1);
}

TEST_F(Collect, OnlyFoundInfSendsThoseAttemptsWhole) {
  FakeServer server;
  MonitorOptions opened = options(server.address());
  opened.ring_attempts = -1;
  Monitor monitor(opened);
  SamplingOptions found;
  found.only_found_inf = true;
  monitor.add_sampling(found);
  declare(monitor);
  attempt(monitor);
  attempt(monitor, kInf, 1, 1);
  attempt(monitor);
  ASSERT_TRUE(monitor.wait_durable(20'000));
  const auto reports = server.reports(3);
  EXPECT_EQ(seen(reports), (Seen{{1, ""}, {2, "ab"}, {3, ""}}));
  EXPECT_EQ(reports.size(), 3U);
}

TEST_F(Collect, FollowerSendsWhatIsNotFiniteAndItsRingWhenItFails) {
  FakeServer::Behaviour follower;
  v1::Directive& directive = follower.directives.emplace_back();
  directive.set_id("leader");
  directive.set_report_every(SCALEWATCH_NEVER);
  FakeServer server(follower);
  MonitorOptions opened = options(server.address());
  opened.ring_attempts = 3;
  Monitor monitor(opened);
  declare(monitor);
  attempt(monitor);  // the directive comes with the first connection
  ASSERT_TRUE(monitor.wait_durable(20'000));
  std::uint64_t first = 0;  // attempt that it holds for
  for (int i = 0; i < 1000 && first == 0; ++i) {
    attempt(monitor);
    ASSERT_TRUE(monitor.wait_durable(20'000));
    const auto now = seen(server.reports(1));
    if (now.rbegin()->second.empty()) first = now.rbegin()->first;
  }
  ASSERT_GT(first, 0U);
  for (int i = 0; i < 10; ++i) attempt(monitor);
  attempt(monitor, 1, kInf, 1);  // fails: its own records and those of two attempts before
  attempt(monitor, 1, kInf, 1);  // goes on failing: told once
  attempt(monitor);
  ASSERT_TRUE(monitor.wait_durable(20'000));
  ASSERT_TRUE(monitor.close());
  const auto reports = server.reports(1);
  const auto last = static_cast<std::uint64_t>(step);
  auto regular = seen(reports);
  for (std::uint64_t attempt = first; attempt <= last; ++attempt) {
    EXPECT_EQ(regular.at(attempt), attempt == last - 2 || attempt == last - 1 ? "b" : "") << attempt;
  }
  EXPECT_EQ(seen(reports, true), (Seen{{last - 4, "ab"}, {last - 3, "ab"}, {last - 2, "a"}}));
}

TEST_F(Collect, MicroscopeGoesOnAndOff) {
  FakeServer server;
  Monitor monitor(options(server.address()));
  SamplingOptions seldom;
  seldom.every = 1000;
  monitor.add_sampling(seldom);
  declare(monitor);
  attempt(monitor);
  v1::Directive microscope;
  microscope.set_id("finding");
  microscope.add_tensors("b");
  microscope.set_every(1);
  server.say(microscope);
  const auto last_holds = [&](const std::string& names) {
    for (int i = 0; i < 1000; ++i) {
      attempt(monitor);
      EXPECT_TRUE(monitor.wait_durable(20'000));
      if (seen(server.reports(1)).at(static_cast<std::uint64_t>(step)) == names) return true;
    }
    return false;
  };
  EXPECT_TRUE(last_holds("b"));
  microscope.set_expires_ms(1);  // over
  server.say(microscope);
  EXPECT_TRUE(last_holds(""));
}

TEST_F(Collect, TensorsThatComeLaterFollowTheDirectiveToo) {
  FakeServer::Behaviour follower;
  follower.directives.emplace_back().set_id("leader");
  follower.directives.back().set_report_every(SCALEWATCH_NEVER);
  FakeServer server(follower);
  Monitor monitor(options(server.address()));
  declare(monitor);
  const auto none = [&] {
    for (int i = 0; i < 1000; ++i) {
      attempt(monitor);
      EXPECT_TRUE(monitor.wait_durable(20'000));
      if (seen(server.reports(1)).at(static_cast<std::uint64_t>(step)).empty()) return true;
    }
    return false;
  };
  ASSERT_TRUE(none());
  ids[0] = monitor.add_tensor({"late", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 1, 0, "", "", ""});
  EXPECT_TRUE(none());
}

TEST_F(Collect, HeartbeatsCarryThePhaseWhenNothingElseIsSent) {
  FakeServer server;
  Monitor monitor(options(server.address()));
  declare(monitor);
  attempt(monitor);
  monitor.set_phase(SCALEWATCH_EVAL);
  ASSERT_TRUE(
      server.wait([](const FakeServer::Messages& messages) { return !messages.empty() && messages.back().has_heartbeat(); }));
  EXPECT_EQ(server.messages().back().heartbeat().phase(), v1::PHASE_EVAL);
}

TEST_F(Collect, OutOfQuotaIsTriedAgain) {
  FakeServer::Behaviour full;
  full.refuse = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams");
  FakeServer server(full);
  Monitor monitor(options(server.address()));
  declare(monitor);
  attempt(monitor);
  ASSERT_TRUE(server.wait([](const FakeServer::Messages& messages) { return !messages.empty(); }));
  server.set({});
  EXPECT_TRUE(monitor.wait_durable(20'000));
  EXPECT_EQ(seen(server.reports(1)), (Seen{{1, "ab"}}));
}

}  // namespace
}  // namespace scalewatch::client_test

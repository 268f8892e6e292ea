#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "server/cli/client.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

TEST(Streams, TailPrintsEventsAndEndsWithTheStream) {
  const FakeServer server(collapsing_run());
  const auto result = run_command(server.address(), {"tail", "digits-hot"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  expect_golden("tail.txt", result.out);
}

TEST(Streams, JsonIsOneObjectALine) {
  const FakeServer server(collapsing_run());
  std::istringstream lines(run_command(server.address(), {"tail", "digits-hot", "--json"}).out);
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["attempt"]["attempt"], "61");
  EXPECT_EQ(events[1]["finding"]["rule"], "NonFiniteApplied");
  EXPECT_EQ(events[2]["dropped"], "12");
}

TEST(Streams, AStopRequestEndsAnOpenStreamWithSuccess) {
  auto data = collapsing_run();
  data.hold_streams = true;
  const FakeServer server(std::move(data));
  std::stop_source source;
  int interrupts = 0;
  std::jthread stopper;
  const auto interrupt = [&] {
    ++interrupts;
    stopper = std::jthread([&] {
      while (server.calls == 0) std::this_thread::yield();  // the probe was answered: the stream opens next
      source.request_stop();
    });
    return source.get_token();
  };
  const auto result = run_command(server.address(), {"tail", "digits-hot"}, {false, interrupt});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(interrupts, 1);
}

TEST(Streams, AFailedStreamIsAnError) {
  auto data = collapsing_run();
  const FakeServer server(std::move(data));
  const auto result = run_command(server.address(), {"tail", "unknown"});
  EXPECT_EQ(result.code, kExitNothing);
  EXPECT_THAT(result.err, testing::HasSubstr("nearest"));
}

TEST(Streams, WatchTellsWhatWasMissed) {
  const FakeServer server(collapsing_run());
  const auto result = run_command(server.address(), {"alerts", "watch"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, testing::AllOf(testing::HasSubstr("NonFiniteApplied"), testing::HasSubstr("(7 changes left out")));
}

}  // namespace
}  // namespace scalewatch::cli

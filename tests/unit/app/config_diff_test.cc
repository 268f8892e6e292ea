#include "server/app/config_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalewatch::app {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

alerting::SinkConfig sink(const std::string& name) {
  alerting::SinkConfig out;
  out.name = name;
  out.type = "webhook";
  out.url = "http://127.0.0.1:1/" + name;
  return out;
}

TEST(ConfigDiff, TellsWhatMayChangeLiveFromWhatNeedsARestart) {
  const Config running;
  Config wanted;
  EXPECT_THAT(differences(running, wanted).live, IsEmpty());
  wanted.engine.thresholds.collapse_octaves = 8;
  wanted.engine.thresholds.off = {"LossSpike"};
  wanted.alerts.repeat = milliseconds(60'000);
  wanted.http_address.port = 1;
  wanted.history.retention.max_runs = 7;
  wanted.alert_flush = milliseconds(1);
  const ConfigDiff diff = differences(running, wanted);
  EXPECT_THAT(diff.live,
              ElementsAre("alerting.repeat: 4h -> 1min", "rules.off: \"\" -> LossSpike", "rules.collapse_octaves: 6 -> 8"));
  EXPECT_THAT(diff.need_restart, ElementsAre("listen.http: 127.0.0.1:9464 -> 127.0.0.1:1", HasSubstr("history.max_runs: "),
                                             "alerting.flush: 5s -> 1ms"));
  EXPECT_TRUE(diff.rules && diff.alerting);

  const Config next = with_live_part(running, wanted);
  EXPECT_EQ(next.engine.thresholds, wanted.engine.thresholds);
  EXPECT_EQ(next.alerts.repeat, wanted.alerts.repeat);
  EXPECT_EQ(next.http_address.port, running.http_address.port);
  EXPECT_EQ(next.alert_flush, running.alert_flush);
  EXPECT_THAT(differences(next, wanted).live, IsEmpty());
}

TEST(ConfigDiff, TellsWhichEntriesOfListsCameAndWent) {
  Config running;
  running.rules_by_run = {{"nightly-*", {{"drift_info", "4"}}}, {"*", {{"off", ""}}}};
  running.alerts.overrides.resize(1);
  running.alerts.overrides[0].rules = "Loss*";
  running.alerts.overrides[0].page = false;
  Config wanted = running;
  std::swap(wanted.rules_by_run[0], wanted.rules_by_run[1]);
  EXPECT_THAT(differences(running, wanted).live, ElementsAre("rules_by_run: in another order"));
  wanted.rules_by_run = {{"nightly-*", {{"drift_info", "5"}}}};
  wanted.alerts.overrides.clear();
  const ConfigDiff diff = differences(running, wanted);
  EXPECT_THAT(diff.live,
              ElementsAre("rules_by_run: without {runs: nightly-*, drift_info: 4}",
                          "rules_by_run: without {runs: *, off: \"\"}", "rules_by_run: with {runs: nightly-*, drift_info: 5}",
                          "alerting.overrides: without {runs: *, rules: Loss*, page: false}"));
  EXPECT_TRUE(diff.rules && diff.alerting);
}

TEST(ConfigDiff, NamesTheSettingsOfSinksAndNotTheirSecrets) {
  Config running;
  running.sinks = {sink("ops"), sink("old")};
  running.sinks[0].headers["Authorization"] = "Bearer hunter2";
  Config wanted;
  wanted.sinks = {sink("ops"), sink("new")};
  wanted.sinks[0].url = "https://hooks.example.org/T0/secret";
  wanted.sinks[0].headers["Authorization"] = "Bearer hunter3";
  wanted.sinks[0].match = {"run=\"x\""};
  const ConfigDiff diff = differences(running, wanted);
  EXPECT_THAT(diff.live, ElementsAre("alerting.sinks: ops has other settings (headers.Authorization, match, url)",
                                     "alerting.sinks: without old", "alerting.sinks: with new"));
  EXPECT_FALSE(diff.rules);
  EXPECT_TRUE(diff.alerting);
}

}  // namespace
}  // namespace scalewatch::app

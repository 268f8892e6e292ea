#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "server/app/config.h"
#include "server/app/settings.h"

namespace scalewatch::app {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct ConfigFile : ::testing::Test {
  const std::string path = ::testing::TempDir() + "scalewatch_config_" + std::to_string(getpid()) + ".yaml";
  ~ConfigFile() override { std::remove(path.c_str()); }

  Config load(const std::string& text) {
    std::ofstream(path) << text;
    Config config;
    load_file(path, config);
    return config;
  }
  // Without the path, which is the same for all: "LINE: what".
  std::string error(const std::string& text) {
    try {
      load(text);
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      EXPECT_THAT(what, StartsWith(path + ":"));
      EXPECT_EQ(what.find('\n'), std::string::npos);
      return what.substr(path.size() + 1);
    }
    return "no error";
  }
};

TEST_F(ConfigFile, EmptyFilesAndSectionsAreDefaults) {
  EXPECT_EQ(load("").grpc_address.text(), "127.0.0.1:7462");
  EXPECT_EQ(load("# nothing\n").engine.commit_delay, milliseconds(50));
  EXPECT_EQ(load("engine:\n  # commit_delay: 1s\nlisten:\n").engine.commit_delay, milliseconds(50));
}

TEST_F(ConfigFile, ReadsEveryKindOfValue) {
  const Config config = load(R"(
data_dir: /var/lib/scalewatch
listen: {grpc: "[::1]:1", http: "127.0.0.1:0", insecure: true}
log: {level: warning, format: json}
engine: {commit_delay: 20ms, commit_size: 1MiB, threads: 4}
limits: {max_tensors: 10, max_name: 64B, max_message: 1MiB}
metrics: {finished_for: 1h}
rules: {consecutive_skips: 9, collapse_octaves: 4.5, rank_lost_after: 2min}
alerting:
  flush: 1s
  sinks:
    - {name: pager, type: webhook, url: "http://127.0.0.1:1/x", min_severity: critical, timeout: 2s, headers: {X-Token: "a b"}}
    - {name: am, type: alertmanager, url: "http://127.0.0.1:9093", reminder: 30s}
)");
  EXPECT_EQ(config.grpc_address.text(), "[::1]:1");
  EXPECT_TRUE(config.insecure_listen);
  EXPECT_EQ(config.log_format, "json");
  EXPECT_EQ(config.engine.commit_bytes, 1u << 20);
  EXPECT_EQ(config.engine.threads, 4u);
  EXPECT_EQ(config.engine.limits.max_name_bytes(), 64u);
  EXPECT_EQ(config.metrics.finished_for, milliseconds(3'600'000));
  EXPECT_EQ(config.engine.thresholds.consecutive_skips, 9u);
  EXPECT_EQ(config.engine.thresholds.collapse_octaves, 4.5);
  EXPECT_EQ(config.engine.thresholds.rank_lost_after_ms, 120'000);
  ASSERT_EQ(config.sinks.size(), 2u);
  EXPECT_EQ(config.sinks[0].min_severity, domain::Severity::kCritical);
  EXPECT_EQ(config.sinks[0].timeout_ms, 2000u);
  EXPECT_EQ(config.sinks[0].headers.at("X-Token"), "a b");
  EXPECT_EQ(config.sinks[1].reminder_ms, 30'000u);
}

TEST_F(ConfigFile, ErrorsNameLineKeyAndWhatIsExpected) {
  EXPECT_EQ(error("log:\n  level: loud\n"), "2: log.level: expected one of debug, info, warning, error, off, got \"loud\"");
  EXPECT_EQ(error("engine:\n\n  comit_delay: 1s\n"), "3: unknown key engine.comit_delay (did you mean engine.commit_delay?)");
  EXPECT_EQ(error("colour: red\n"), "1: unknown key colour");  // nothing is near
  EXPECT_EQ(error("engine: {commit_delay: 50}\n"), "1: engine.commit_delay: expected a duration from 1ms to 10s, got \"50\"");
  EXPECT_THAT(error("engine: {commit_delay: 11s}\n"), HasSubstr("from 1ms to 10s, got \"11s\""));
  EXPECT_THAT(error("engine: {threads: 0}\n"), HasSubstr("engine.threads: expected a whole number from 1 to 256, got \"0\""));
  EXPECT_THAT(error("engine: {threads: [1]}\n"), HasSubstr("engine.threads: expected one value"));
  EXPECT_THAT(error("engine: 5\n"), HasSubstr("engine: expected keys with values"));
  EXPECT_THAT(error("- a\n"), HasSubstr("the file: expected keys with values"));
  EXPECT_THAT(error("engine:\n  threads: 1\n  threads: 2\n"), StartsWith("3: engine.threads is given twice"));
  EXPECT_THAT(error("rules: {collapse_octaves: nan}\n"), HasSubstr("expected a number from 0 to 256, got \"nan\""));
  EXPECT_THAT(error("listen: {grpc: \"example.org:1\"}\n"), HasSubstr("listen.grpc: expected an IP address and a port"));
  EXPECT_THAT(error("a: b: c\n"), StartsWith("1: not YAML: "));
  EXPECT_THAT(error("a: [\n"), HasSubstr("not YAML: "));
  EXPECT_EQ(error("\"two\\nlines\": 1\n"), "1: unknown key two\\x0alines");
  EXPECT_THAT(error("log: {level: \"\\e[2J\"}\n"), HasSubstr("got \"\\x1b[2J\""));
}

TEST_F(ConfigFile, ErrorsInSinks) {
  EXPECT_THAT(error("alerting:\n  sinks:\n    - {name: a, type: webhook, url: \"http://x/\", timout: 3s}\n"),
              StartsWith("3: unknown key timout (did you mean timeout?)"));
  EXPECT_THAT(error("alerting: {sinks: [{name: a, type: pigeon, url: \"http://x/\"}]}\n"), HasSubstr("sink 'a'"));
  EXPECT_THAT(error("alerting: {sinks: [{name: a, type: webhook, url: \"ftp://x/\"}]}\n"), HasSubstr("sink 'a'"));
  EXPECT_THAT(error("alerting: {sinks: [{name: a, min_severity: bad}]}\n"), HasSubstr("one of info, warning, critical"));
  EXPECT_THAT(error("alerting: {sinks: 5}\n"), HasSubstr("alerting.sinks: expected a list"));
}

TEST_F(ConfigFile, RulesAreByRunWhereAskedFor) {
  const Config config = load(
      "rules: {consecutive_skips: 6, off: \"LossSpike\"}\n"
      "rules_by_run:\n"
      "  - {runs: \"nightly-*\", consecutive_skips: 8, drift_info: 5}\n"
      "  - {runs: \"*-big\", consecutive_skips: 9, off: \"ScaleDrift, RankLost\"}\n");
  EXPECT_EQ(thresholds_of(config, "mine").consecutive_skips, 6u);
  EXPECT_EQ(thresholds_of(config, "mine").off, std::vector<std::string>{"LossSpike"});
  EXPECT_EQ(thresholds_of(config, "nightly-1").consecutive_skips, 8u);
  EXPECT_EQ(thresholds_of(config, "nightly-1").off, std::vector<std::string>{"LossSpike"});
  const domain::Thresholds both = thresholds_of(config, "nightly-big");
  EXPECT_EQ(both.consecutive_skips, 9u) << "the last to set it";
  EXPECT_EQ(both.drift_info, 5u);
  EXPECT_EQ(both.off, (std::vector<std::string>{"ScaleDrift", "RankLost"}));
}

TEST_F(ConfigFile, ErrorsInRulesByRun) {
  EXPECT_THAT(error("rules_by_run:\n  - {runs: a, consecutive_skip: 8}\n"),
              StartsWith("2: unknown key rules.consecutive_skip (did you mean rules.consecutive_skips?)"));
  EXPECT_THAT(error("rules_by_run: [{consecutive_skips: 8}]\n"), HasSubstr("expected runs"));
  EXPECT_THAT(error("rules_by_run: 5\n"), HasSubstr("rules_by_run: expected a list"));
  EXPECT_THAT(error("rules: {off: \"LossSpikes\"}\n"), HasSubstr("rules.off: expected names of rules"));
}

TEST_F(ConfigFile, MissingFile) {
  Config config;
  EXPECT_THROW(load_file("/nonexistent/scalewatchd.yaml", config), ConfigError);
  EXPECT_THROW(load_file(::testing::TempDir(), config), ConfigError);
}

TEST_F(ConfigFile, SinksMaySendOnlyWhereTheListAllowsOnceAllIsRead) {
  const auto sinks = [](const std::string& url) {
    return "alerting:\n  sinks:\n    - {name: a, type: webhook, url: '" + url +
           "', watchdog: 1min}\n  runbook_url: https://b/{rule}\n";
  };
  Config config = load(sinks("http://169.254.169.254/T0KEN") + "  allowed_hosts: \"169.254.169.254, *.example.org\"\n");
  bind_sinks(config);
  EXPECT_NO_THROW(validate(config));
  EXPECT_EQ(config.sinks.at(0).watchdog_ms, 60'000U);
  EXPECT_EQ(config.sinks.at(0).watchdog_runbook, "https://b/Watchdog");
  config = load(sinks("http://127.0.0.1/T0KEN"));
  bind_sinks(config);
  EXPECT_NO_THROW(validate(config));
  // Others reach the server now: what listens on this machine only is none of theirs.
  config.http_address.host = "0.0.0.0";
  config.insecure_listen = config.anonymous_listen = true;
  bind_sinks(config);
  try {
    validate(config);
    FAIL() << "loopback is allowed";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sink 'a': url: host 127.0.0.1 is this machine itself"));
    EXPECT_EQ(std::string(error.what()).find("T0KEN"), std::string::npos);
  }
  // An address that is wrong is not repeated: it may be a secret.
  EXPECT_EQ(error("alerting:\n  sinks:\n    - {name: a, type: webhook, url: \"http://h/T0KEN\\x01\"}\n").find("T0KEN"),
            std::string::npos);
  EXPECT_THAT(error("alerting:\n  sinks:\n    - {name: a, type: webhook, url: 'http://h', watchdog: 1s}\n"),
              HasSubstr("watchdog: expected a duration from 10s to 1h"));
}

// The example says that it holds every key with its default; so it must.
TEST_F(ConfigFile, WhatClickHouseWouldNotTakeIsAFaultOfTheFile) {
  const auto fault = [&](const std::string& where) -> std::string {
    const Config config = load("history:\n  clickhouse:\n    hosts: http://127.0.0.1:1\n    " + where + "\n");
    try {
      validate(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(fault("password_file: /nowhere"), HasSubstr("password_file: /nowhere can't be read"));
  EXPECT_THAT(fault("password_file: /etc"), HasSubstr("/etc can't be read"));
  EXPECT_THAT(fault("password_file: /dev/zero"), HasSubstr("too long"));
  EXPECT_THAT(fault("password_env: SCALEWATCH_NO_SUCH_VARIABLE"), HasSubstr("is not set"));
  EXPECT_EQ(fault("password_file: /dev/null"), "no error");
  EXPECT_THAT(fault("database: 2024"), HasSubstr("no digit first"));
  EXPECT_THAT(fault("database: a-b"), HasSubstr("letters, digits and _"));
  EXPECT_EQ(fault("database: runs_2024"), "no error");
}

TEST_F(ConfigFile, AFleetsFilesAreLookedAtBeforeTheStart) {
  for (const std::string key : {"token_file", "ca"}) {
    for (const std::string file : {"/nowhere", "/etc", "/dev/null"}) {
      const Config config = load("fleet: {instances: \"a=127.0.0.1:1\", self: a, " + key + ": " + file + "}\n");
      EXPECT_THAT([&] { validate(config); },
                  ::testing::ThrowsMessage<ConfigError>("fleet." + key + ": " + file + " cannot be read, or is empty"));
    }
  }
}

TEST(ExampleConfig, HoldsEveryKeyWithItsDefault) {
  Config defaults;
  Config example;
  for (Setting& setting : settings(example)) {  // spoiled first, so that a key the file lacks is seen
    for (const char* other : {"127.0.0.9:9", "true", "7", "7s", "1h", "20MiB", "600B", "debug", "json", "off-by-one"}) {
      if (setting.set(other) && !setting.get().empty()) break;
    }
  }
  load_file(SCALEWATCH_EXAMPLE_CONFIG, example);
  const auto expected = settings(defaults);
  const auto actual = settings(example);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i].get(), expected[i].get()) << expected[i].key;
}

TEST(Settings, DefaultsAreWithinTheirOwnRanges) {
  Config config;
  for (Setting& setting : settings(config)) EXPECT_TRUE(setting.set(setting.get())) << setting.key << " " << setting.get();
}

}  // namespace
}  // namespace scalewatch::app

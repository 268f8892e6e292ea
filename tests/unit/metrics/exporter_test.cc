#include "server/metrics/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace scalewatch::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kNow = 1'700'000'000'000;

std::shared_ptr<v1::GetRunResponse> make_run(const std::string& name) {
  auto overview = std::make_shared<v1::GetRunResponse>();
  v1::RunSummary& run = *overview->mutable_run();
  run.set_name(name);
  run.set_run_uid("uid-" + name);
  run.set_status(v1::RUN_STATUS_RUNNING);
  run.set_framework("cpp");
  run.set_compute_dtype(v1::DTYPE_FP16);
  run.set_world_size(4);
  run.set_ranks_connected(3);
  run.set_applied(90);
  run.set_skipped(9);
  run.set_partial(1);
  run.set_lost_reports(2);
  run.set_last_report_ms(kNow - 1500);
  run.set_loss(0.5);
  v1::ScalerSummary& scaler = *overview->add_scalers();
  scaler.set_name("default");
  scaler.set_policy("pytorch");
  scaler.set_scale(65536);
  scaler.set_growth_tracker(17);
  scaler.set_skip_ratio(0.25);
  scaler.set_growths(3);
  return overview;
}

void add_finding(v1::GetRunResponse& overview, const std::string& rule, v1::Severity severity, bool open = true) {
  v1::Finding& finding = *overview.add_findings();
  finding.set_rule(rule);
  finding.set_severity(severity);
  finding.set_open(open);
  if (open) overview.mutable_run()->set_worst_open(std::max(overview.run().worst_open(), severity));
}

struct ExporterTest : ::testing::Test {
  std::vector<std::shared_ptr<const v1::GetRunResponse>> runs;
  engine::EngineStats stats;
  std::vector<SinkSample> sinks;
  Options options;

  std::string page() {
    const Sources sources{[this] { return runs; }, [this] { return stats; }, [this] { return sinks; }, [] { return kNow; }};
    return Exporter(options, sources, "1.2.3").page();
  }
};

TEST_F(ExporterTest, ShowsARun) {
  auto run = make_run("digits");
  add_finding(*run, "NonFiniteLoss", v1::SEVERITY_CRITICAL);
  add_finding(*run, "NonFiniteGradient", v1::SEVERITY_CRITICAL);
  add_finding(*run, "NonFiniteGradient", v1::SEVERITY_CRITICAL);
  add_finding(*run, "ScaleCollapse", v1::SEVERITY_WARNING, /*open=*/false);
  runs = {run};
  const std::string text = page();
  for (
      const char* line : {
          R"(scalewatch_run_info{run="digits",run_uid="uid-digits",framework="cpp",dtype="fp16",world_size="4",policy="pytorch"} 1)",
          R"(scalewatch_attempts_total{run="digits",outcome="applied"} 90)",
          R"(scalewatch_attempts_total{run="digits",outcome="skipped"} 9)",
          R"(scalewatch_attempts_total{run="digits",outcome="partial"} 1)",
          R"(scalewatch_scaler_scale{run="digits",scaler="default"} 65536)",
          R"(scalewatch_scaler_growth_tracker{run="digits",scaler="default"} 17)",
          R"(scalewatch_scaler_skip_ratio{run="digits",scaler="default"} 0.25)",
          R"(scalewatch_scaler_growths_total{run="digits",scaler="default"} 3)",
          R"(scalewatch_last_report_timestamp_seconds{run="digits"} 1699999998.5)",
          R"(scalewatch_ranks{run="digits"} 4)",
          R"(scalewatch_ranks_connected{run="digits"} 3)",
          R"(scalewatch_reports_lost_total{run="digits"} 2)",
          R"(scalewatch_loss{run="digits"} 0.5)",
          R"(scalewatch_findings_open{run="digits",severity="critical"} 3)",
          R"(scalewatch_findings_open{run="digits",severity="warning"} 0)",
          R"(scalewatch_rule_findings_open{run="digits",rule="NonFiniteGradient",severity="critical"} 2)",
      }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("ScaleCollapse")));
}

TEST_F(ExporterTest, ShowsLossesByCauseAndWhatClientsCostSummedOverRanks) {
  auto run = make_run("digits");
  for (std::uint32_t number = 0; number < 3; ++number) {
    v1::RankSummary& rank = *run->add_ranks();
    rank.set_rank(number);
    rank.set_trainer_thread_ns(500'000'000);
    rank.set_client_thread_ns(2'000'000'000);
    rank.set_buffered_bytes(1000);
    rank.set_spooled_bytes(number);
    v1::LossSummary& loss = *rank.add_losses();
    loss.set_cause(number == 2 ? "spool_limit" : "queue_full");
    loss.set_reports(number);
    loss.set_thinned(10);
  }
  runs = {run};
  const std::string text = page();
  for (const char* line : {
           R"(scalewatch_run_lost_reports_total{run="digits",cause="queue_full"} 1)",
           R"(scalewatch_run_lost_reports_total{run="digits",cause="spool_limit"} 2)",
           R"(scalewatch_run_thinned_reports_total{run="digits",cause="queue_full"} 20)",
           R"(scalewatch_client_trainer_thread_seconds_total{run="digits"} 1.5)",
           R"(scalewatch_client_thread_seconds_total{run="digits"} 6)",
           R"(scalewatch_client_buffered_bytes{run="digits"} 3000)",
           R"(scalewatch_client_spooled_bytes{run="digits"} 3)",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("rank="))) << "ranks are not bounded";
}

TEST_F(ExporterTest, ShowsTheServer) {
  stats.reports = 12;
  stats.queued_bytes = 4096;
  stats.lag_seconds = 0.25;
  stats.history_degraded = true;
  sinks = {{"pager", 5, 2, 1, 3}};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("scalewatch_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_ingest_reports_total 12\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_ingest_queued_bytes 4096\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_ingest_lag_seconds 0.25\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_degraded 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_alert_deliveries_total{sink=\"pager\",result=\"failed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_alert_deliveries_pending{sink=\"pager\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes "));
  EXPECT_THAT(text, HasSubstr("process_start_time_seconds 1"));
}

TEST_F(ExporterTest, BoundKeepsTheWorstThenTheNewest) {
  options.max_runs = 2;
  auto old_bad = make_run("old-bad");
  old_bad->mutable_run()->set_last_report_ms(1);
  add_finding(*old_bad, "NonFiniteLoss", v1::SEVERITY_CRITICAL);
  auto older = make_run("older");
  older->mutable_run()->set_last_report_ms(kNow - 5000);
  runs = {older, old_bad, make_run("newest")};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("scalewatch_ranks{run=\"old-bad\"}"));
  EXPECT_THAT(text, HasSubstr("scalewatch_ranks{run=\"newest\"}"));
  EXPECT_THAT(text, Not(HasSubstr("run=\"older\"")));
  EXPECT_THAT(text, HasSubstr("scalewatch_runs_left_out 1\n"));
}

TEST_F(ExporterTest, EndedRunsLeaveAfterTheConfiguredTime) {
  options.finished_for = std::chrono::seconds(60);
  auto recent = make_run("recent");
  recent->mutable_run()->set_status(v1::RUN_STATUS_FINISHED);
  auto gone = make_run("gone");
  gone->mutable_run()->set_status(v1::RUN_STATUS_FINISHED);
  gone->mutable_run()->set_last_report_ms(kNow - 60'001);
  auto lost = make_run("lost");
  lost->mutable_run()->set_status(v1::RUN_STATUS_LOST);
  lost->mutable_run()->set_last_report_ms(kNow - 60'001);
  auto quiet = make_run("quiet");  // still connected, however long ago it reported
  quiet->mutable_run()->set_last_report_ms(kNow - 1'000'000);
  runs = {recent, gone, lost, quiet};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("run=\"recent\""));
  EXPECT_THAT(text, HasSubstr("run=\"quiet\""));
  EXPECT_THAT(text, Not(HasSubstr("run=\"gone\"")));
  EXPECT_THAT(text, Not(HasSubstr("run=\"lost\"")));
  EXPECT_THAT(text, HasSubstr("scalewatch_runs_left_out 0\n"));
}

TEST_F(ExporterTest, AbsentIsNotZero) {
  auto run = make_run("fresh");
  run->mutable_run()->clear_loss();
  run->mutable_scalers(0)->clear_scale();
  run->mutable_scalers(0)->clear_growth_tracker();
  runs = {run};
  const std::string text = page();
  EXPECT_THAT(text, Not(HasSubstr("scalewatch_loss{")));
  EXPECT_THAT(text, Not(HasSubstr("scalewatch_scaler_scale{")));
  EXPECT_THAT(text, Not(HasSubstr("scalewatch_scaler_growth_tracker{")));
}

TEST_F(ExporterTest, NoSeriesTwiceAndScalersAreBounded) {
  options.max_scalers_per_run = 3;
  auto run = make_run("many");
  for (int i = 0; i < 4; ++i) *run->add_scalers() = run->scalers(0);
  runs = {run};
  const std::string text = page();
  std::set<std::string> series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_THAT(text, HasSubstr("scalewatch_scalers_left_out 2\n"));
}

TEST_F(ExporterTest, EscapesLabelsAndKeepsNonFiniteNumbers) {
  auto run = make_run("a\"b\\c\nd");
  run->mutable_run()->set_loss(std::numeric_limits<double>::quiet_NaN());
  run->mutable_scalers(0)->set_scale(std::numeric_limits<double>::infinity());
  runs = {run};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_ranks{run="a\"b\\c\nd"} 4)"));
  EXPECT_THAT(text, HasSubstr(R"(scaler="default"} +Inf)"));
  EXPECT_THAT(text, ::testing::ContainsRegex("scalewatch_loss\\{[^}]*\\} [Nn]a[Nn]"));
}

TEST_F(ExporterTest, PromtoolFindsNothing) {
#ifndef SCALEWATCH_PROMTOOL
  GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
#else
  auto run = make_run("odd \"name\"\\\nof a run");
  run->mutable_run()->set_loss(std::numeric_limits<double>::quiet_NaN());
  add_finding(*run, "NonFiniteLoss", v1::SEVERITY_CRITICAL);
  runs = {run, make_run("plain")};
  sinks = {{"pager", 5, 2, 1, 3}};
  const std::string base = ::testing::TempDir() + "scalewatch_page_" + std::to_string(getpid());
  std::ofstream(base + ".txt") << page();
  const std::string command = SCALEWATCH_PROMTOOL " check metrics < " + base + ".txt > " + base + ".out 2>&1";
  const int status = std::system(command.c_str());  // NOLINT(bugprone-command-processor): fixed command, own file
  std::stringstream said;
  said << std::ifstream(base + ".out").rdbuf();
  EXPECT_EQ(status, 0) << said.str();
  EXPECT_EQ(said.str(), "");
  std::remove((base + ".txt").c_str());
  std::remove((base + ".out").c_str());
#endif
}

}  // namespace
}  // namespace scalewatch::metrics

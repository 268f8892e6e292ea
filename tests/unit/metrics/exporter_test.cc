#include "server/metrics/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "server/metrics/catalog.h"

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

std::shared_ptr<const engine::RunReadings> make_readings() {
  auto out = std::make_shared<engine::RunReadings>();
  out->scalers.push_back({2, 1.0});
  out->gradient_norm = 3.5;
  engine::RoleReading& gradient = out->roles.at(static_cast<std::size_t>(Role::kGradient));
  gradient = {.headroom = 1.25, .non_zero = 1000, .under = 250, .worst_under = 0.75};
  out->roles.at(static_cast<std::size_t>(Role::kParameter)).headroom = 11;
  out->counts.non_finite_elements.at(static_cast<std::size_t>(Role::kGradient)) = 12;
  out->counts.non_finite_attempts.at(static_cast<std::size_t>(Role::kGradient)) = 4;
  out->counts.non_finite_losses = 2;
  out->counts.skips.at(static_cast<std::size_t>(domain::SkipReason::kGradient)) = 3;
  out->counts.non_finite_applied = 1;
  out->tensors = {{"head.weight", Role::kGradient, 1.25}, {"head.bias", Role::kGradient, 2.5}};
  return out;
}

struct ExporterTest : ::testing::Test {
  std::vector<std::shared_ptr<const v1::GetRunResponse>> runs;
  std::map<std::string, std::shared_ptr<const engine::RunReadings>> readings;  // by run's name
  engine::EngineStats stats;
  std::vector<SinkSample> sinks;
  StoreSample store;
  ReloadSample reloads;
  std::optional<FleetSample> fleet;
  std::int64_t now = kNow;
  Options options;

  Exporter exporter() {
    return {options,
            {[this] {
               std::vector<engine::RunShown> shown;
               for (const auto& run : runs) shown.push_back({run, readings[run->run().name()]});
               return shown;
             },
             [this] { return stats; },
             [this] { return sinks; },
             [this] { return store; },
             [this] { return reloads; },
             [this] { return now; },
             {},
             {},
             [this] { return fleet; }},
            "1.2.3"};
  }
  std::string page() { return exporter().page(); }
};

TEST_F(ExporterTest, ShowsTheFleetWhereThereIsOne) {
  EXPECT_THAT(page(), Not(HasSubstr("scalewatch_fleet_")));
  fleet = {.there = 2, .gone = 1, .moved_clients = 7, .taken_over = 3, .yielded = 1};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("scalewatch_fleet_servers{state=\"gone\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_fleet_moved_clients_total 7\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_fleet_runs_taken_over_total 3\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_fleet_runs_yielded_total 1\n"));
}

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
  stats.commit_durations.note(0.004);
  stats.commit_durations.note(0.3);
  stats.commit_durations.note(60);
  sinks = {
      {.sink = "pager", .delivered = 5, .failed = 2, .dropped = 1, .pending = 3, .oldest_seconds = 7.5, .dead_letters = 4}};
  store = {.database_bytes = 4096,
           .wal_bytes = 0,
           .disk_free_bytes = {},
           .cache_hits = 9,
           .cache_misses = 1,
           .commits_lost = 2,
           .ballast_bytes = 0,
           .ballast_wanted = 100};
  reloads = {.last_successful = false, .success_ms = 1500, .taken = 3, .refused = 1};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("scalewatch_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_ingest_reports_total 12\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_ingest_queued_bytes 4096\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_ingest_lag_seconds 0.25\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_degraded 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_alert_deliveries_total{sink=\"pager\",result=\"failed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_alert_deliveries_pending{sink=\"pager\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_alert_delivery_oldest_seconds{sink=\"pager\"} 7.5\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_alert_dead_letters{sink=\"pager\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_commit_duration_seconds_bucket{le=\"0.005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_commit_duration_seconds_bucket{le=\"10\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_commit_duration_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_commit_duration_seconds_count 3\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_commit_duration_seconds_sum 60.304\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_size_bytes{file=\"wal\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("scalewatch_history_disk_free_bytes "))) << "not known is absent";
  EXPECT_THAT(text, HasSubstr("scalewatch_history_page_cache_reads_total{result=\"hit\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_commits_lost_total 2\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_ballast_bytes 0\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_history_ballast_wanted_bytes 100\n"));
  EXPECT_THAT(text, Not(HasSubstr("scalewatch_run_history_limit_bytes "))) << "no limit is absent";
  EXPECT_THAT(text, HasSubstr("scalewatch_config_reloads_total{result=\"refused\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_config_last_reload_successful 0\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_config_last_reload_success_timestamp_seconds 1.5\n"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes "));
  EXPECT_THAT(text, HasSubstr("process_start_time_seconds 1"));
}

TEST_F(ExporterTest, ShowsWhatRunsTakeOfTheirLimit) {
  runs = {make_run("digits"), make_run("pinned")};
  store.run_limit_bytes = 1000;
  store.run_bytes = {{"digits", 400}, {"not on the page", 1}};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("scalewatch_run_history_limit_bytes 1000\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_run_history_bytes{run=\"digits\"} 400\n"));
  EXPECT_THAT(text, Not(HasSubstr("scalewatch_run_history_bytes{run=\"pinned\"}")));
  EXPECT_THAT(text, Not(HasSubstr("not on the page")));
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

TEST_F(ExporterTest, ShowsWhatAttemptsAndTensorsSay) {
  runs = {make_run("digits"), make_run("unmeasured")};
  readings["digits"] = make_readings();
  const std::string text = page();
  for (const char* line : {
           R"(scalewatch_scaler_hysteresis{run="digits",scaler="default"} 2)",
           R"(scalewatch_scaler_scale_floor{run="digits",scaler="default"} 1)",
           R"(scalewatch_gradient_norm{run="digits"} 3.5)",
           R"(scalewatch_headroom_octaves{run="digits",role="gradient"} 1.25)",
           R"(scalewatch_headroom_octaves{run="digits",role="parameter"} 11)",
           R"(scalewatch_underflow_ratio{run="digits",role="gradient"} 0.25)",
           R"(scalewatch_worst_underflow_ratio{run="digits",role="gradient"} 0.75)",
           R"(scalewatch_non_finite_elements_total{run="digits",role="gradient"} 12)",
           R"(scalewatch_non_finite_elements_total{run="digits",role="parameter"} 0)",
           R"(scalewatch_non_finite_attempts_total{run="digits",role="gradient"} 4)",
           R"(scalewatch_non_finite_attempts_total{run="digits",role="loss"} 2)",
           R"(scalewatch_skips_total{run="digits",reason="gradient"} 3)",
           R"(scalewatch_skips_total{run="digits",reason="loss"} 0)",
           R"(scalewatch_non_finite_applied_attempts_total{run="digits"} 1)",
           R"(scalewatch_tensor_headroom_octaves{run="digits",tensor="head.bias",role="gradient"} 2.5)",
           R"(scalewatch_run_status{run="digits",status="running"} 1)",
           R"(scalewatch_run_status{run="digits",status="lost"} 0)",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr(R"(scalewatch_headroom_octaves{run="unmeasured")")));
  EXPECT_THAT(text, Not(HasSubstr(R"(role="activation")"))) << "never measured";
}

TEST_F(ExporterTest, UsersLabelsAreNamesThatPrometheusTakes) {
  auto run = make_run("digits");
  auto& labels = *run->mutable_run()->mutable_labels();
  labels["team"] = "vision \"x\"";
  labels["cost-center"] = "1";
  labels["cost.center"] = "2";  // the same name by Prometheus' rules: the first stays
  runs = {run, make_run("plain")};
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_run_labels{run="digits",label_cost_center="1",label_team="vision \"x\""} 1)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(scalewatch_run_labels{run="plain")")));
}

// As METRICS.md says what a run has at most.
TEST_F(ExporterTest, TenThousandRunsStayWithinTheConfiguredBound) {
  constexpr std::size_t kScalers = 2;
  constexpr std::size_t kTensors = 10;
  options.max_runs = 100;
  options.max_scalers_per_run = kScalers;
  auto readings_of_all = std::make_shared<engine::RunReadings>(*make_readings());
  readings_of_all->scalers.assign(5, {1, 1.0});
  for (std::size_t i = 0; i < engine::kRoles; ++i) readings_of_all->roles.at(i) = {1, 10, 1, 0.5};
  readings_of_all->tensors.clear();
  for (std::size_t i = 0; i < kTensors; ++i) readings_of_all->tensors.push_back({"t" + std::to_string(i), Role::kGradient, 1});
  constexpr std::array kCauses = {"buffer_full", "queue_full",  "too_large", "rejected", "internal",
                                  "reconnect",   "spool_limit", "device",    "store"};
  for (int i = 0; i < 10'000; ++i) {
    auto run = make_run("run-" + std::to_string(i));
    for (int more = 0; more < 4; ++more) *run->add_scalers() = run->scalers(0);
    for (int rank = 0; rank < 3; ++rank) {
      v1::RankSummary& to = *run->add_ranks();
      for (const char* cause : kCauses) to.add_losses()->set_cause(cause);
    }
    (*run->mutable_run()->mutable_labels())["team"] = "a";
    add_finding(*run, "ScaleDrift", v1::SEVERITY_WARNING);
    readings[run->run().name()] = readings_of_all;
    store.run_bytes[run->run().name()] = 1;
    runs.push_back(std::move(run));
  }
  const std::string text = page();
  std::size_t series = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) series += line.find("run=\"") != std::string::npos ? 1 : 0;
  constexpr std::size_t kOfARun = 36 + 10 * kScalers + kTensors + 5 * 6 + 1 + 2 * kCauses.size() + 1;
  EXPECT_LE(series, options.max_runs * kOfARun);
  EXPECT_GE(series, options.max_runs * (kOfARun - 5)) << "METRICS.md says more than there is";
  EXPECT_THAT(text, HasSubstr("scalewatch_runs 100\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_runs_left_out 9900\n"));
}

TEST_F(ExporterTest, EndedRunsStayWhenTheEngineForgetsThemOrWasRestarted) {
  options.finished_for = std::chrono::seconds(60);
  options.max_runs = 3;
  const auto ended = [](const std::string& name, std::int64_t ago_ms) {
    auto run = make_run(name);
    run->mutable_run()->set_status(v1::RUN_STATUS_FINISHED);
    run->mutable_run()->set_last_report_ms(kNow - ago_ms);
    return run;
  };
  Exporter exporter = this->exporter();
  exporter.remember_ended(
      {{ended("before", 30'000), make_readings()}, {ended("long-ago", 61'000), {}}, {ended("back", 20'000), {}}});
  runs = {ended("here", 1000), make_run("back")};  // "back" runs again: the engine knows better
  std::string text = exporter.page();
  EXPECT_THAT(text, HasSubstr("scalewatch_run_status{run=\"before\",status=\"finished\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_headroom_octaves{run=\"before\",role=\"gradient\"} 1.25\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_run_status{run=\"here\",status=\"finished\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("scalewatch_run_status{run=\"back\",status=\"running\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("run=\"long-ago\"")));

  runs.clear();  // the engine has let them go
  text = exporter.page();
  EXPECT_THAT(text, HasSubstr("run=\"here\""));
  EXPECT_THAT(text, Not(HasSubstr("run=\"back\""))) << "it ran on: what was known of its end is void";

  now += 45'000;
  text = exporter.page();
  EXPECT_THAT(text, HasSubstr("run=\"here\""));
  EXPECT_THAT(text, Not(HasSubstr("run=\"before\"")));
}

TEST_F(ExporterTest, CountsAndTimesRequestsByRoute) {
  Exporter exporter = this->exporter();
  exporter.http_ended("/api/v1/runs/{run}", 200, 0.02);
  exporter.http_ended("/api/v1/runs/{run}", 503, 3);
  const std::string text = exporter.page();
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_http_requests_total{code="503",route="/api/v1/runs/{run}"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_http_request_duration_seconds_bucket{route="/api/v1/runs/{run}",le="0.025"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_http_request_duration_seconds_count{route="/api/v1/runs/{run}"} 2)"));
}

void rpcs(Exporter& exporter) {
  exporter.rpc_ended("History/GetRun", "OK", 0.02);
  exporter.rpc_ended("History/GetRun", "NOT_FOUND", 0.2);
  exporter.rpc_ended("History/TailRun", "OK", std::nullopt);
}

TEST_F(ExporterTest, CountsCallsAndTimesThoseWithOneAnswer) {
  Exporter exporter = this->exporter();
  rpcs(exporter);
  const std::string text = exporter.page();
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_rpcs_total{code="OK",method="History/TailRun"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_rpcs_total{code="NOT_FOUND",method="History/GetRun"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_rpc_duration_seconds_bucket{method="History/GetRun",le="0.025"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(scalewatch_rpc_duration_seconds_count{method="History/GetRun"} 2)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(scalewatch_rpc_duration_seconds_count{method="History/TailRun")")));
}

TEST(Reference, IsThePageInDeploy) {
  std::stringstream page;
  page << std::ifstream(SCALEWATCH_METRICS_PAGE).rdbuf();
  EXPECT_EQ(page.str(), reference()) << "write it anew: scalewatchd --metrics-reference > deploy/METRICS.md";
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
  readings["plain"] = make_readings();
  sinks = {{.sink = "pager", .delivered = 5}};
  store.database_bytes = 1;
  Exporter exporter = this->exporter();
  const std::string base = ::testing::TempDir() + "scalewatch_page_" + std::to_string(getpid());
  rpcs(exporter);
  exporter.http_ended("/metrics", 200, 0.02);
  std::ofstream(base + ".txt") << exporter.page();
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

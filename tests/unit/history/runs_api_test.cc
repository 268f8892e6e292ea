// Runs by RPC: order, paging, filters, findings, and what an unknown name or a bad field is told.
#include <atomic>
#include <map>
#include <thread>

#include "scalewatch/v1/alerts.pb.h"
#include "server/history/maintenance.h"
#include "server/history/sqlite.h"
#include "tests/unit/history/api_fixture.h"

namespace scalewatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Pair;

class RunsApi : public ApiTest {
 protected:
  void add_run(const std::string& name, v1::Severity worst, std::int64_t last_report_ms,
               v1::RunStatus status = v1::RUN_STATUS_RUNNING) {
    auto row = run_row("uid-" + name, name);
    row.worst_open = worst;
    row.last_report_ms = last_report_ms;
    row.status = status;
    v1::GetRunResponse overview;
    overview.mutable_run()->set_attempts(42);
    overview.add_ranks()->set_host("host-" + name);
    row.overview = overview.SerializeAsString();
    engine::CommitBatch batch;
    batch.runs = {row};
    store_->commit(batch);
  }
  // Names of all pages, "|" between pages.
  std::string list(v1::ListRunsRequest request) {
    std::string names;
    v1::ListRunsResponse response;
    do {
      const auto status = api_->list_runs(request, response);
      if (!status.ok()) return status.message;
      for (const auto& run : response.runs()) names += run.name() + " ";
      names += "|";
      request.set_page_token(response.next_page_token());
    } while (!response.next_page_token().empty());
    return names;
  }
};

TEST_F(RunsApi, ListsWorstThenNewestInPages) {
  add_run("a", v1::SEVERITY_UNSPECIFIED, 900);
  add_run("b", v1::SEVERITY_CRITICAL, 100);
  add_run("c", v1::SEVERITY_WARNING, 300, v1::RUN_STATUS_FINISHED);
  add_run("d", v1::SEVERITY_WARNING, 300);
  add_run("e", v1::SEVERITY_WARNING, 500);
  v1::ListRunsRequest request;
  EXPECT_EQ(list(request), "b e c d a |");
  request.set_page_size(1);
  EXPECT_EQ(list(request), "b |e |c |d |a |");
  request.set_page_size(2);
  EXPECT_EQ(list(request), "b e |c d |a |");
  request.set_min_severity(v1::SEVERITY_WARNING);
  request.set_status(v1::RUN_STATUS_RUNNING);
  EXPECT_EQ(list(request), "b e |d |");
  v1::ListRunsRequest by_name;
  by_name.set_name_contains("B");
  EXPECT_EQ(list(by_name), "|");
  by_name.set_name_contains("b");
  EXPECT_EQ(list(by_name), "b |");
}

// All that an overview can say of its run, and other things around it.
v1::GetRunResponse full_overview() {
  v1::GetRunResponse overview;
  overview.add_findings()->set_id("f");
  overview.add_ranks()->set_host("host");
  v1::RunSummary& run = *overview.mutable_run();
  const auto* reflection = run.GetReflection();
  for (int i = 0; i < run.GetDescriptor()->field_count(); ++i) {
    const auto* field = run.GetDescriptor()->field(i);
    using Field = google::protobuf::FieldDescriptor;
    if (field->is_repeated()) continue;
    switch (field->cpp_type()) {
      case Field::CPPTYPE_STRING:
        reflection->SetString(&run, field, field->name());
        break;
      case Field::CPPTYPE_INT64:
        reflection->SetInt64(&run, field, -1000 - i);
        break;
      case Field::CPPTYPE_UINT64:
        reflection->SetUInt64(&run, field, std::uint64_t{1} << 63 | static_cast<std::uint64_t>(i));
        break;
      case Field::CPPTYPE_UINT32:
        reflection->SetUInt32(&run, field, 100'000U + static_cast<std::uint32_t>(i));
        break;
      case Field::CPPTYPE_DOUBLE:
        reflection->SetDouble(&run, field, 0.5 + i);
        break;
      default:
        reflection->SetEnumValue(&run, field, 1);
    }
  }
  (*run.mutable_labels())["team"] = "vision";
  (*run.mutable_labels())["cluster"] = "";
  overview.add_segments()->set_segment(7);
  return overview;
}

engine::RunRow row_with(const std::string& name, const v1::GetRunResponse& overview) {
  auto row = run_row("uid-" + name, name);
  row.created_ms = 5;
  row.last_report_ms = 0;
  row.segment = 3;
  row.status = v1::RUN_STATUS_LOST;
  row.worst_open = v1::SEVERITY_UNSPECIFIED;
  row.overview = overview.SerializeAsString();
  return row;
}

void expect_columns(const v1::RunSummary& run, const engine::RunRow& row) {
  EXPECT_EQ(run.run_uid(), row.run_uid);
  EXPECT_EQ(run.name(), row.name);
  EXPECT_EQ(run.created_ms(), row.created_ms);
  EXPECT_EQ(run.last_report_ms(), row.last_report_ms);
  EXPECT_EQ(run.segment(), row.segment);
  EXPECT_EQ(run.status(), row.status);
  EXPECT_EQ(run.worst_open(), row.worst_open);
}

TEST_F(RunsApi, ListsAllThatTheOverviewSaysOfTheRunAndTheColumnsWin) {
  const auto overview = full_overview();
  const auto row = row_with("a", overview);
  engine::CommitBatch batch;
  batch.runs = {row};
  store_->commit(batch);
  v1::ListRunsResponse response;
  ASSERT_TRUE(api_->list_runs({}, response).ok());
  ASSERT_EQ(response.runs_size(), 1);
  expect_columns(response.runs(0), row);
  auto expected = overview.run();
  expected.set_run_uid(row.run_uid);
  expected.set_name(row.name);
  expected.set_created_ms(row.created_ms);
  expected.set_last_report_ms(row.last_report_ms);
  expected.set_segment(row.segment);
  expected.set_status(v1::RUN_STATUS_LOST);
  expected.set_worst_open(v1::SEVERITY_UNSPECIFIED);
  EXPECT_EQ(response.runs(0).DebugString(), expected.DebugString());
}

TEST_F(RunsApi, OneWhoseOverviewIsDamagedIsListedByItsColumns) {
  engine::CommitBatch batch;
  v1::GetRunResponse plain;
  plain.mutable_run()->set_framework("x");
  batch.runs = {row_with("good", plain), row_with("text", plain), row_with("cut", plain)};
  store_->commit(batch);
  // Of a file without seals, where only a parser sees it. The framework's one letter is the last byte before the seal.
  api_.reset();
  store_.reset();
  Connection((dir_.path / "history.db").string(), SQLITE_OPEN_READWRITE)
      .execute(
          "UPDATE runs SET overview = substr(overview, 1, length(overview) - 7);"
          "UPDATE runs SET overview = CAST(substr(overview, 1, length(overview) - 1) || x'ff' AS BLOB) WHERE name = 'text';"
          "UPDATE runs SET overview = substr(overview, 1, length(overview) - 1) WHERE name = 'cut'; PRAGMA user_version = 2");
  store_ = SqliteStore::open(dir_.path);
  api_ = make_history_api(*store_);
  std::string answer;
  ASSERT_TRUE(api_->encode_runs({}, answer).ok());
  v1::ListRunsResponse response;
  ASSERT_TRUE(response.ParseFromString(answer));
  ASSERT_EQ(response.runs_size(), 3);
  for (int i = 0; i < 3; ++i) {
    expect_columns(response.runs(i), batch.runs[static_cast<std::size_t>(i)]);
    EXPECT_EQ(response.runs(i).framework(), i == 0 ? "x" : "") << i;
  }
}

TEST_F(RunsApi, OneWhoseNameIsDamagedHidesNoOther) {
  engine::CommitBatch batch;
  batch.runs = {row_with("good", {}), row_with("name", {})};
  store_->commit(batch);
  Connection((dir_.path / "history.db").string(), SQLITE_OPEN_READWRITE)
      .execute("UPDATE runs SET name = CAST(x'ff62' AS TEXT) WHERE name = 'name'");
  std::string answer;
  ASSERT_TRUE(api_->encode_runs({}, answer).ok());
  v1::ListRunsResponse response;
  ASSERT_TRUE(response.ParseFromString(answer));
  std::vector<std::string> names;
  for (const auto& run : response.runs()) names.push_back(run.name());
  EXPECT_THAT(names, testing::UnorderedElementsAre("good", "\\xffb"));
  v1::GetRunRequest one;
  one.set_run(batch.runs[1].run_uid);
  v1::GetRunResponse told;
  ASSERT_TRUE(api_->get_run(one, told).ok());
  EXPECT_EQ(told.run().name(), "\\xffb");
  EXPECT_EQ(verify_folder(dir_.path, false, [](double) { return true; }).faults_found, 1U);
}

TEST_F(RunsApi, BadFieldsAreNamed) {
  v1::ListRunsRequest request;
  request.set_page_size(1001);
  EXPECT_THAT(list(request), HasSubstr("page_size: 1001"));
  request.set_page_size(-1);
  EXPECT_THAT(list(request), HasSubstr("page_size: -1"));
  request.set_page_size(1);
  for (const char* token : {"x", "zz", "72", "720a610a620a63", "74"}) {
    request.set_page_token(token);
    EXPECT_THAT(list(request), HasSubstr("page_token")) << token;
  }
}

TEST_F(RunsApi, GetRunJoinsOverviewAndFindingsOpenAndWorstFirst) {
  add_run("a", v1::SEVERITY_WARNING, 900);
  engine::CommitBatch batch;
  const auto add = [&](const std::string& id, v1::Severity severity, v1::AlertState state) {
    v1::Alert alert;
    alert.mutable_finding()->set_id(id);
    batch.alerts.push_back({id, "uid-a", "Rule", severity, state, 10, 10, alert.SerializeAsString()});
  };
  add("resolved", v1::SEVERITY_CRITICAL, v1::ALERT_STATE_RESOLVED);
  add("info", v1::SEVERITY_INFO, v1::ALERT_STATE_FIRING);
  add("warning", v1::SEVERITY_WARNING, v1::ALERT_STATE_ACKNOWLEDGED);
  add("elsewhere", v1::SEVERITY_CRITICAL, v1::ALERT_STATE_FIRING);
  batch.alerts.back().run_uid = "other";
  store_->commit(batch);
  v1::GetRunRequest request;
  request.set_run("a");
  v1::GetRunResponse response;
  ASSERT_TRUE(api_->get_run(request, response).ok());
  EXPECT_EQ(response.run().run_uid(), "uid-a");
  EXPECT_EQ(response.run().attempts(), 42U);
  EXPECT_EQ(response.run().last_report_ms(), 900);
  EXPECT_EQ(response.ranks(0).host(), "host-a");
  std::vector<std::string> ids;
  for (const auto& finding : response.findings()) ids.push_back(finding.id());
  EXPECT_THAT(ids, ElementsAre("warning", "info", "resolved"));

  // One that is damaged does not take the others along.
  batch = {};
  batch.alerts.push_back({"info", "uid-a", "Rule", v1::SEVERITY_INFO, v1::ALERT_STATE_FIRING, 10, 10, "\xff"});
  store_->commit(batch);
  ASSERT_TRUE(api_->get_run(request, response).ok());
  EXPECT_EQ(response.findings_size(), 2);
}

TEST_F(RunsApi, GetRunIsOfOneMoment) {
  add_run("a", v1::SEVERITY_WARNING, 900);
  v1::Alert alert;
  alert.mutable_finding()->set_id("x");
  const auto turn = [&](std::int64_t times) {
    const auto state = times % 2 == 0 ? v1::ALERT_STATE_RESOLVED : v1::ALERT_STATE_FIRING;
    engine::CommitBatch batch;
    batch.alerts.push_back({"x", "uid-a", "Rule", v1::SEVERITY_WARNING, state, 10, 10 + times, alert.SerializeAsString()});
    store_->commit(batch);
  };
  turn(0);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::int64_t times = 1; times <= 500; ++times) turn(times);
    done = true;
  });
  v1::GetRunRequest request;
  request.set_run("a");
  std::map<int, int> answers;  // by how many findings they hold
  while (!done) {
    v1::GetRunResponse response;
    if (api_->get_run(request, response).ok()) ++answers[response.findings_size()];
  }
  writer.join();
  EXPECT_THAT(answers, ElementsAre(Pair(1, Gt(0))));
}

TEST_F(RunsApi, UnknownRunsAreToldTheNearest) {
  v1::GetRunRequest request;
  v1::GetRunResponse response;
  request.set_run("resnet-v3");
  EXPECT_THAT(api_->get_run(request, response).message, HasSubstr("no run is stored yet"));
  for (const char* name : {"resnet-v1", "bert", "resnet-v2", "gpt"}) add_run(name, v1::SEVERITY_INFO, 1);
  const auto status = api_->get_run(request, response);
  EXPECT_EQ(status.code, engine::Status::kNotFound);
  EXPECT_THAT(status.message, HasSubstr(R"(unknown run "resnet-v3"; nearest: "resnet-v1", "resnet-v2", )"));
  request.set_run("");
  EXPECT_EQ(api_->get_run(request, response).code, engine::Status::kInvalidArgument);
}

}  // namespace
}  // namespace scalewatch::history

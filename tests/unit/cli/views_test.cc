#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "server/cli/client.h"
#include "server/cli/text/layout.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class Views : public testing::Test {
 protected:
  // Runs the command, which must succeed, and checks that it stays within 80 columns.
  std::string text(const std::vector<std::string>& arguments, int code = kExitOk) {
    const auto result = run_command(server.address(), arguments);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_EQ(result.err, "");
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(text::display_width(line), 80) << line;
    return result.out;
  }
  Json json(std::vector<std::string> arguments, int code = kExitOk) {
    arguments.emplace_back("--json");
    const auto result = run_command(server.address(), arguments);
    EXPECT_EQ(result.code, code) << result.err;
    return Json::parse(result.out);
  }
  FakeServer server{collapsing_run()};
};

TEST_F(Views, Runs) {
  expect_golden("runs.txt", text({"runs"}));
}
TEST_F(Views, Show) {
  expect_golden("show.txt", text({"show", "digits-hot"}));
}
TEST_F(Views, Scaler) {
  expect_golden("scaler.txt", text({"scaler", "digits-hot"}));
}
TEST_F(Views, ScalerAscii) {
  expect_golden("scaler_ascii.txt", text({"scaler", "digits-hot", "--ascii", "--limit", "2"}));
}
TEST_F(Views, Tensors) {
  expect_golden("tensors.txt", text({"tensors", "digits-hot"}));
}
TEST_F(Views, History) {
  expect_golden("history.txt", text({"history", "digits-hot", "w"}));
}
TEST_F(Views, HistoryHeadroom) {
  expect_golden("history_headroom.txt", text({"history", "digits-hot", "w", "--stat", "headroom", "--ascii"}));
}
TEST_F(Views, Top) {
  expect_golden("top.txt", text({"top", "digits-hot"}));
}
TEST_F(Views, Alerts) {
  expect_golden("alerts.txt", text({"alerts", "--all"}));
}
TEST_F(Views, Doctor) {
  expect_golden("doctor.txt", text({"doctor", "--run", "digits-hot"}, kExitCritical));
}

TEST_F(Views, ShowTellsLossesByCause) {
  const auto lose = [&](int rank, const char* cause, std::uint64_t reports, std::uint64_t thinned) {
    auto& loss = *server.data().run.mutable_ranks(rank)->add_losses();
    loss.set_cause(cause);
    loss.set_reports(reports);
    loss.set_first_seq(reports > 0 ? 40 : 0);
    loss.set_last_seq(reports > 0 ? 39 + reports : 0);
    loss.set_thinned(thinned);
    loss.set_first_attempt(7);
    loss.set_last_attempt(9);
  };
  lose(0, "buffer_full", 3, 0);
  lose(1, "buffer_full", 0, 5);
  lose(1, "reconnect", 0, 12);
  const std::string shown = text({"show", "digits-hot"});
  EXPECT_THAT(shown, testing::ContainsRegex("buffer_full +3 +5 +2  reports 40-42 of rank 0"));
  EXPECT_THAT(shown, testing::ContainsRegex("reconnect +0 +12 +1  attempts 7-9 of rank 1"));
}

// As while a shared history is away that alone has the older attempts.
TEST_F(Views, ShowAndDoctorGoWithoutAScalersHistoryThatCannotBeToldNow) {
  server.data().scaler_not_now = "attempts from 4987 on are here";
  for (const auto* view : {"show", "doctor"}) {
    const bool doctor = std::string(view) == "doctor";
    const auto result = run_command(server.address(), doctor ? std::vector<std::string>{view, "--run", "digits-hot"}
                                                             : std::vector<std::string>{view, "digits-hot"});
    EXPECT_EQ(result.code, doctor ? kExitCritical : kExitOk) << result.err;
    EXPECT_THAT(result.err, HasSubstr("the scale's history is left out")) << view;
    EXPECT_THAT(result.err, HasSubstr("4987")) << view;
    EXPECT_THAT(result.out, HasSubstr("NonFiniteApplied")) << view;
  }
  const auto scaler = run_command(server.address(), {"scaler", "digits-hot"});
  EXPECT_EQ(scaler.code, kExitNothing);
  EXPECT_THAT(scaler.err, HasSubstr("try again"));
}

TEST_F(Views, RunsThatDiedStandBeforeRunsThatAreWell) {
  auto& runs = *server.data().runs.mutable_runs();
  const auto one = [&](const char* name, v1::Severity open, v1::Severity worst, std::int64_t reported) {
    auto& run = *runs.Add();
    run.set_name(name);
    run.set_worst_open(open);
    run.set_worst(worst);
    run.set_last_report_ms(reported);
  };
  runs.Clear();
  one("well", v1::SEVERITY_UNSPECIFIED, v1::SEVERITY_UNSPECIFIED, 900);
  one("died", v1::SEVERITY_UNSPECIFIED, v1::SEVERITY_CRITICAL, 100);
  one("warned", v1::SEVERITY_WARNING, v1::SEVERITY_WARNING, 500);
  one("died later", v1::SEVERITY_UNSPECIFIED, v1::SEVERITY_CRITICAL, 200);
  std::vector<std::string> order;
  const auto told = json({"runs"});
  for (const auto& run : told["runs"]) order.push_back(run["name"]);
  EXPECT_EQ(order, (std::vector<std::string>{"warned", "died later", "died", "well"}));
}

TEST_F(Views, RunsReadsEveryPageUpToTheLimit) {
  auto& runs = *server.data().runs.mutable_runs();
  while (runs.size() < 7) *runs.Add() = runs.Get(1);
  server.data().page_size = 3;
  EXPECT_EQ(json({"runs"})["runs"].size(), 7U);
  const auto cut = json({"runs", "--limit", "4"});
  EXPECT_EQ(cut["runs"].size(), 4U);
  EXPECT_EQ(cut["next_page_token"], "4");
  EXPECT_THAT(text({"runs", "--limit", "4"}), HasSubstr("raise --limit"));
}

TEST_F(Views, FiltersReachTheServer) {
  text({"runs", "--name", "hot", "--min-severity", "warning"});
  EXPECT_EQ(server.list_runs_request.name_contains(), "hot");
  EXPECT_EQ(server.list_runs_request.min_severity(), v1::SEVERITY_WARNING);

  text({"history", "r", "t", "--role", "activation_gradient", "--rank", "0", "--first", "13", "--last", "60", "--points", "9"});
  EXPECT_EQ(server.tensor_history_request.tensor(), "t");
  EXPECT_EQ(server.tensor_history_request.role(), v1::ROLE_ACTIVATION_GRADIENT);
  EXPECT_TRUE(server.tensor_history_request.has_rank());
  EXPECT_EQ(server.tensor_history_request.range().last(), 60U);
  EXPECT_EQ(server.tensor_history_request.max_points(), 9U);

  text({"top", "r", "--by", "nonfinite", "--limit", "3"});
  EXPECT_EQ(server.top_request.by(), v1::TopTensorsRequest::BY_NON_FINITE);
  EXPECT_EQ(server.top_request.limit(), 3U);

  text({"scaler", "r", "--scaler", "1", "--rank", "2", "--first", "5", "--segment", "2"});
  EXPECT_EQ(server.scaler_request.range().segment(), 2U);
  EXPECT_EQ(server.scaler_request.scaler(), 1U);
  EXPECT_EQ(server.scaler_request.rank(), 2U);
  EXPECT_EQ(server.scaler_request.range().first(), 5U);

  text({"alerts", "--run", "digits-hot"});
  EXPECT_EQ(server.list_alerts_request.run(), "digits-hot");
  EXPECT_TRUE(server.list_alerts_request.states().empty());  // all but resolved
  text({"alerts", "--state", "firing", "--state", "acknowledged", "--rule", "NoSuchRule"});
  ASSERT_EQ(server.list_alerts_request.states_size(), 2);
  EXPECT_EQ(server.list_alerts_request.states(1), v1::ALERT_STATE_ACKNOWLEDGED);
}

TEST_F(Views, HistoryReadsOnWhereTheServerStopped) {
  const auto all = json({"history", "digits-hot", "w"});
  EXPECT_EQ(all["points"].size(), 5U);
  EXPECT_EQ(all["truncated"], false);
}

TEST_F(Views, EmptyAnswersSayWhatToDo) {
  server.data() = FakeData{};
  EXPECT_THAT(text({"runs"}), HasSubstr("No runs yet"));
  EXPECT_THAT(text({"runs", "--name", "x"}), HasSubstr("No run matches"));
  EXPECT_THAT(text({"tensors", "r"}), HasSubstr("no tensors yet"));
  EXPECT_THAT(text({"top", "r"}), HasSubstr("No tensor has such a value"));
  EXPECT_THAT(text({"history", "r", "t"}), HasSubstr("No record"));
  EXPECT_THAT(text({"scaler", "r"}), HasSubstr("No scale was reported"));
  EXPECT_THAT(text({"alerts"}), HasSubstr("No open alerts"));
}

TEST_F(Views, JsonIsTheResponseWithItsFieldNames) {
  const auto show = json({"show", "digits-hot"});
  EXPECT_EQ(show["run"]["run_uid"], "r-01");
  EXPECT_EQ(show["run"]["loss"], "NaN");
  EXPECT_EQ(show["run"]["status"], "RUN_STATUS_RUNNING");
  EXPECT_EQ(show["findings"][0]["blame"]["rank_of_origin"], 1);
  EXPECT_FALSE(show["findings"][1].contains("blame"));
  // Fields without presence are there even when they are 0.
  EXPECT_EQ(show["ranks"][0]["rank"], 0);
  EXPECT_EQ(json({"scaler", "digits-hot"})["points"].size(), 60U);
  EXPECT_EQ(json({"tensors", "digits-hot"})["tensors"][1]["last"]["nan"], "4");
  EXPECT_EQ(json({"top", "digits-hot"})["tensors"][0]["info"]["role"], "ROLE_PARAMETER");
  EXPECT_EQ(json({"alerts"})["alerts"][0]["state"], "ALERT_STATE_FIRING");
}

TEST_F(Views, DoctorJson) {
  const auto diagnosis = json({"doctor", "--run", "digits-hot"}, kExitCritical);
  EXPECT_EQ(diagnosis["format"], "server");
  EXPECT_EQ(diagnosis["verdict"], "critical");
  EXPECT_EQ(diagnosis["attempts"], (Json{{"seen", 60}, {"applied", 44}, {"skipped", 15}, {"unknown", 0}}));
  EXPECT_EQ(diagnosis["scale"], (Json{{"first", 65536.0}, {"last", 4.0}, {"min", 4.0}}));
  ASSERT_EQ(diagnosis["findings"].size(), 2U);  // those of the newest segment, open or not
  const auto& finding = diagnosis["findings"][0];
  EXPECT_EQ(finding["rule"], "NonFiniteApplied");
  EXPECT_EQ(finding["severity"], "critical");
  EXPECT_EQ(finding["first_step"], 57);
  EXPECT_EQ(finding["last_step"], 59);
  EXPECT_TRUE(finding["line"].is_null());
  EXPECT_EQ(finding["ranks"], Json::array({0}));
  EXPECT_EQ(finding["blamed"], "encoder.layers.3.attention.query_key_value.weight");
  EXPECT_EQ(finding["evidence"][1]["limit"], 0.0);
  EXPECT_TRUE(finding["evidence"][0]["limit"].is_null());
  EXPECT_EQ(finding["advice"].size(), 2U);
  EXPECT_TRUE(diagnosis["findings"][1]["blamed"].is_null());
}

TEST_F(Views, DoctorsExitCodeFollowsTheNewestSegmentsVerdict) {
  auto& findings = *server.data().run.mutable_findings();
  findings.DeleteSubrange(0, 1);  // a resolved warning and an older segment's critical one are left
  EXPECT_EQ(json({"doctor", "--run", "digits-hot"}, kExitWarning)["verdict"], "warning");
  findings.Mutable(0)->set_severity(v1::SEVERITY_INFO);
  EXPECT_EQ(json({"doctor", "--run", "digits-hot"}, kExitOk)["verdict"], "info");
  findings.DeleteSubrange(0, 1);
  EXPECT_EQ(json({"doctor", "--run", "digits-hot"}, kExitOk)["verdict"], "healthy");
}

TEST_F(Views, Acknowledge) {
  const auto id = server.data().alerts.alerts(0).id();
  EXPECT_THAT(text({"alerts", "ack", id, "--who", "kim", "--comment", "on it"}), HasSubstr("acknowledged by kim"));
  EXPECT_EQ(server.acknowledge_request.id(), id);
  EXPECT_EQ(server.acknowledge_request.comment(), "on it");
}

TEST_F(Views, ColorsOnlyOnATerminalThatWantsThem) {
  const auto colored = [&](const std::vector<std::string>& arguments, bool terminal) {
    return run_command(server.address(), arguments, {terminal, {}}).out.find('\x1b') != std::string::npos;
  };
  unsetenv("NO_COLOR");
  EXPECT_TRUE(colored({"runs"}, true));
  EXPECT_FALSE(colored({"runs"}, false));
  EXPECT_FALSE(colored({"runs", "--no-color"}, true));
  EXPECT_FALSE(colored({"runs", "--json"}, true));
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(colored({"runs"}, true));
  unsetenv("NO_COLOR");
}

TEST_F(Views, WidthZeroCutsNothing) {
  const auto& name = server.data().tensors.tensors(1).info().name();
  server.data().tensors.mutable_tensors()->DeleteSubrange(0, 1);  // its like, from which it could not be told when cut
  EXPECT_THAT(text({"tensors", "digits-hot"}), Not(HasSubstr(name)));
  EXPECT_THAT(run_command(server.address(), {"tensors", "digits-hot", "--width", "0"}).out, HasSubstr(name));
}

TEST_F(Views, NamesThatLookAlikeWhenCutAndNamesOfRunsStandWhole) {
  EXPECT_THAT(text({"runs"}), HasSubstr(server.data().runs.runs(1).name()));
  const auto tensors = text({"tensors", "digits-hot"});
  EXPECT_THAT(tensors, HasSubstr(server.data().tensors.tensors(0).info().name()));
  EXPECT_THAT(tensors, HasSubstr(server.data().tensors.tensors(1).info().name()));
}

TEST_F(Views, HistoryShowsOneKindOfValueAcrossAChangeOfScale) {
  // As the server merges: one scale keeps stored values, several come unscaled under scale 1.
  auto& history = server.data().history;
  history.mutable_points()->DeleteSubrange(3, 2);
  const double scales[][2] = {{65536, 65536}, {32768, 65536}, {32768, 32768}};
  for (int i = 0; i < 3; ++i) {
    auto& point = *history.mutable_points(i);
    point.set_scale_low(scales[i][0]);
    point.set_scale_high(scales[i][1]);
    const bool mixed = scales[i][0] != scales[i][1];
    point.mutable_record()->set_measured_under_scale(mixed ? 1 : scales[i][0]);
    point.mutable_record()->set_absmax(static_cast<float>(0.25 * (mixed ? 1 : scales[i][0])));
  }
  const auto shown = text({"history", "digits-hot", "w"});
  expect_golden("history_scales.txt", shown);
  EXPECT_EQ(json({"history", "digits-hot", "w"})["points"][1]["scale_high"], 65536.0);
}

TEST_F(Views, ShowDrawsEveryScaler) {
  auto& second = *server.data().run.add_scalers();
  second.set_scaler(1);
  second.set_name("critic");
  const auto shown = text({"show", "digits-hot"});
  EXPECT_THAT(shown, testing::ContainsRegex("scaler 0 \\(scaler\\), 44 applied"));
  EXPECT_EQ(server.scaler_request.scaler(), 1U);
}

}  // namespace
}  // namespace scalewatch::cli

// What looks at a run in detail and what makes something of it: attempt, heatmap, export, report, checklist, compare, watch.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "server/cli/client.h"
#include "server/cli/text/layout.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class Details : public testing::Test {
 protected:
  Result run_it(const std::vector<std::string>& arguments, int code = kExitOk) {
    auto result = run_command(server.address(), arguments);
    EXPECT_EQ(result.code, code) << result.err;
    return result;
  }
  // For views: nothing beside the output, and within 80 columns.
  std::string text(const std::vector<std::string>& arguments, int code = kExitOk) {
    const auto result = run_it(arguments, code);
    EXPECT_EQ(result.err, "");
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(text::display_width(line), 80) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
    return result.out;
  }
  Json json(std::vector<std::string> arguments, int code = kExitOk) {
    arguments.emplace_back("--json");
    return Json::parse(run_it(arguments, code).out);
  }
  FakeServer server{collapsing_run()};
};

TEST_F(Details, AttemptInTheOrderThatValuesFlowed) {
  expect_golden("attempt.txt", text({"attempt", "digits-hot", "6"}));
}
TEST_F(Details, AttemptWithBadTensorsOnly) {
  const auto shown = text({"attempt", "digits-hot", "6", "--bad"});
  EXPECT_THAT(shown, AllOf(HasSubstr("(1 finite)"), Not(HasSubstr("exp_avg_sq"))));
}
TEST_F(Details, AttemptThatIsFiniteSaysSoAndTheNewestIsTheDefault) {
  EXPECT_THAT(text({"attempt", "digits-hot"}), AllOf(HasSubstr("attempt 9 "), HasSubstr("All that was measured is finite")));
}
TEST_F(Details, AttemptPoisonedBeforeIsNotBlamedOnItsOwnTensors) {
  auto& tensors = *server.data().attempts[3].mutable_tensors();  // attempt 5
  for (auto& tensor : tensors) {
    if (tensor.info().role() == v1::ROLE_PARAMETER) tensor.mutable_record()->set_nan(1);
  }
  server.data().page_size = 3;  // pages are joined
  const auto shown = text({"attempt", "digits-hot", "6"});
  EXPECT_THAT(shown, HasSubstr("Poisoned before: encoder.layers.0.attention.query_key_value.weight"));
  EXPECT_THAT(shown, HasSubstr("at attempt 5 already"));
}

TEST_F(Details, Heatmap) {
  expect_golden("heatmap.txt", text({"heatmap", "digits-hot"}));
}
TEST_F(Details, HeatmapAscii) {
  expect_golden("heatmap_ascii.txt", text({"heatmap", "digits-hot", "--ascii", "--role", "gradient", "--stat", "headroom"}));
}
TEST_F(Details, HeatmapNeverMergesNonFiniteOrSkipsAway) {
  // Three hundred attempts share some forty columns, and one element of one of them was NaN.
  auto& attempts = server.data().attempts;
  const auto clean = attempts.front();
  attempts.clear();
  for (std::uint64_t number = 1; number <= 300; ++number) {
    attempts.push_back(clean);
    attempts.back().mutable_attempt()->set_attempt(number);
  }
  attempts[150].mutable_tensors(5)->mutable_record()->set_nan(1);
  attempts[210].mutable_attempt()->mutable_scalers(0)->set_applied(0);
  attempts[210].mutable_attempt()->mutable_scalers(0)->set_skipped(1);
  const auto shown = text({"heatmap", "digits-hot", "--first", "1", "--limit", "1"});
  EXPECT_THAT(shown, testing::ContainsRegex("head.out +act +[^ ]*N"));  // the limit keeps the row that has it
  EXPECT_THAT(shown, testing::ContainsRegex("skips +\\^"));
  EXPECT_THAT(shown, HasSubstr("1 of 10 tensors"));
  const auto told = json({"heatmap", "digits-hot", "--first", "1"});
  EXPECT_EQ(told["tensors"].size(), 10U);
  EXPECT_EQ(std::count(told["tensors"][5]["marks"].begin(), told["tensors"][5]["marks"].end(), "nan"), 1);
}
TEST_F(Details, HeatmapColorsOnlyWhereTheyAreWanted) {
  unsetenv("NO_COLOR");
  EXPECT_THAT(run_command(server.address(), {"heatmap", "digits-hot"}, {true, {}}).out, HasSubstr("\x1b[48;5;"));
  EXPECT_THAT(run_command(server.address(), {"heatmap", "digits-hot", "--no-color"}, {true, {}}).out, Not(HasSubstr("\x1b")));
}

TEST_F(Details, ExportTensors) {
  const auto result = run_it({"export", "digits-hot", "--first", "5", "--last", "6", "--role", "activation"});
  expect_golden("export_tensors.csv", result.out);
  EXPECT_EQ(result.err, "6 rows of 2 attempts\n");
}
TEST_F(Details, ExportAttemptsStepsOverGapsAndKeepsNaN) {
  const auto result = run_it({"export", "digits-hot", "--what", "attempts"});
  expect_golden("export_attempts.csv", result.out);
  EXPECT_EQ(result.err, "8 rows of 8 attempts\n");
}
TEST_F(Details, ExportFindingsQuotesWhatCsvWouldBreakOn) {
  server.data().run.mutable_findings(0)->set_summary("a \"quoted\", summary");
  const auto csv = run_it({"export", "digits-hot", "--what", "findings"}).out;
  EXPECT_THAT(csv, HasSubstr("\"a \"\"quoted\"\", summary\""));
  std::istringstream lines(run_it({"export", "digits-hot", "--what", "findings", "--format", "jsonl"}).out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(Json::parse(line)["summary"], "a \"quoted\", summary");
}
TEST_F(Details, ExportAsJsonLinesSaysAbsentFromNaN) {
  std::istringstream lines(run_it({"export", "digits-hot", "--what", "attempts", "--json"}).out);
  std::vector<Json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[4]["attempt"], 6);
  EXPECT_EQ(rows[4]["loss"], "NaN");
  EXPECT_EQ(rows[4]["grad_norm"], "Infinity");
  EXPECT_EQ(rows[4]["outcome"], "skipped");
}

TEST_F(Details, ReportIsOnePageThatAsksForNothing) {
  server.data().run.mutable_run()->set_name("<script>alert(1)</script>&\"");
  server.data().run.mutable_run()->set_run_uid("r-01");
  const auto page = run_it({"report", "r-01"}).out;
  expect_golden("report.html", page);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;"));
  for (const auto* forbidden : {"<script", "http:", "https:", "src=", "href=", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(forbidden)));
  }
  EXPECT_THAT(page, AllOf(HasSubstr("NonFiniteApplied"), HasSubstr("90% sure"), HasSubstr("1 skipped attempt")));
}
TEST_F(Details, ReportAsJson) {
  const auto told = json({"report", "digits-hot"});
  EXPECT_EQ(told["diagnosis"]["verdict"], "critical");
  EXPECT_EQ(told["skips"], Json::array({6}));
  EXPECT_EQ(told["loss"].size(), 8U);
  EXPECT_EQ(told["loss"][4]["nan"], 1);
  EXPECT_TRUE(told["loss"][4]["low"].is_null());
  EXPECT_EQ(told["scales"]["0"][0]["high"], 65536.0);
}

TEST_F(Details, Checklist) {
  expect_golden("checklist.txt", text({"checklist", "digits-hot"}, kExitWarning));
}
TEST_F(Details, ChecklistJson) {
  const auto told = json({"checklist", "digits-hot"}, kExitWarning);
  EXPECT_GT(told["violated"], 0);
  EXPECT_EQ(told["items"].size(),
            told["violated"].get<std::size_t>() + told["holds"].get<std::size_t>() + told["not_observable"].get<std::size_t>());
  for (const auto& item : told["items"]) EXPECT_EQ(item["send"].is_null(), item["verdict"] != "not observable") << item;
}
TEST_F(Details, ChecklistOfALog) {
  const std::string log = testing::TempDir() + "/checklist.log";
  std::ofstream out(log);
  for (int i = 1; i <= 40; ++i) out << "step " << i << " loss: 2.5 grad_norm: 1.5 loss_scale: 65536\n";
  out.close();
  const auto told = json({"checklist", log});
  bool loss = false;
  for (const auto& item : told["items"]) {
    loss = loss || (item["id"] == "log_losses" && item["verdict"] == "holds");
    if (item["id"] == "master_weights") {
      EXPECT_EQ(item["verdict"], "not observable");
    }
  }
  EXPECT_TRUE(loss) << told;
  EXPECT_EQ(server.calls, 0);
}

TEST_F(Details, Compare) {
  expect_golden("compare.txt", text({"compare", "digits-fp32", "digits-hot"}));
}
TEST_F(Details, CompareJson) {
  const auto told = json({"compare", "digits-fp32", "digits-hot"});
  EXPECT_EQ(told["attempts"], 8);
  EXPECT_EQ(told["outcome_parts_at"], 6);
  EXPECT_EQ(told["loss_parts_at"], 6);
  EXPECT_EQ(told["tensors"][0]["parts_at"], 5);
  EXPECT_NEAR(told["tensors"][0]["octaves"].get<double>(), -3, 1e-6);  // 64 times the squares: 8 times the norm
  const auto same = json({"compare", "digits-hot", "digits-hot"});
  for (const auto& tensor : same["tensors"]) EXPECT_TRUE(tensor["parts_at"].is_null());
}

TEST_F(Details, WhatIf) {
  expect_golden("whatif.txt", text({"whatif", "digits-hot", "--set", "init_scale=1024"}));
}
TEST_F(Details, WhatIfJsonAndWrongSettings) {
  const auto told = json({"whatif", "digits-hot", "--policy", "static", "--set", "init_scale=1048576"});
  EXPECT_EQ(told["attempts"], 8);
  EXPECT_EQ(told["instead"]["policy"], "static");
  EXPECT_GT(told["instead"]["skipped"], 1);
  EXPECT_EQ(told["ran"]["skipped"], 1);
  EXPECT_EQ(told["replay_differs_at"], 0);
  EXPECT_EQ(run_it({"whatif", "digits-hot", "--set", "no_such=1"}, kExitUsage).out, "");
  EXPECT_EQ(run_it({"whatif", "digits-hot", "--policy", "nobody's"}, kExitUsage).out, "");
  EXPECT_EQ(run_it({"whatif", "digits-hot", "--scaler", "7"}, kExitNothing).out, "");
}

TEST_F(Details, WhatIfBf16) {
  expect_golden("whatif_bf16.txt", text({"whatif", "digits-hot", "--bf16"}));
  EXPECT_EQ(run_it({"whatif", "digits-hot", "--bf16", "--best"}, kExitUsage).out, "");
}
TEST_F(Details, WhatIfBestToldInWordsAndKeptToItsBound) {
  const auto told = json({"whatif", "digits-hot", "--best", "--max-underflow", "100"});
  EXPECT_TRUE(told["search"]["within"].get<bool>());
  EXPECT_EQ(told["search"]["most_underflow"], 1);
  EXPECT_LE(told["instead"]["skipped"].get<int>(), told["ran"]["skipped"].get<int>());
  EXPECT_THAT(text({"whatif", "digits-hot", "--best"}), testing::HasSubstr("these skip least"));
  EXPECT_EQ(run_it({"whatif", "digits-hot", "--max-underflow", "3"}, kExitUsage).out, "");
}

TEST_F(Details, WatchWithoutATerminalPrintsPictures) {
  expect_golden("watch.txt", text({"watch", "--count", "1"}));
}
TEST_F(Details, WatchGivesTheTerminalBack) {
  const auto shown = run_command(server.address(), {"watch", "--count", "1"}, {true, {}}).out;
  EXPECT_TRUE(shown.starts_with("\x1b[?1049h")) << shown;
  EXPECT_TRUE(shown.ends_with("\x1b[?7h\x1b[?25h\x1b[?1049l")) << shown;
}
TEST_F(Details, WatchEndsWhenItIsAskedToAndOutlivesItsServersTrouble) {
  std::stop_source source;
  std::jthread stopper;
  const auto interrupt = [&] {
    stopper = std::jthread([&] {
      while (server.calls == 0) std::this_thread::yield();
      server.data().fail_message = "gone for a while";
      server.data().fail_code = 14;
      const int before = server.calls;
      while (server.calls < before + 2) std::this_thread::yield();
      source.request_stop();
    });
    return source.get_token();
  };
  const auto result = run_command(server.address(), {"watch", "--interval", "0.2"}, {false, interrupt});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("gone for a while"));
  EXPECT_THAT(result.out, HasSubstr("digits-hot"));
}

}  // namespace
}  // namespace scalewatch::cli

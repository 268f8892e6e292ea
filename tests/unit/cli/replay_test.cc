// scalewatch replay: no server, a trace in, what the scaler did out.
#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "server/cli/cli.h"
#include "server/cli/client.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kTraces = SCALEWATCH_TEST_DATA "/traces/";

// The command with `input` as standard input.
Result replay_input(const std::string& input, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"scalewatch", "replay", "-"});
  std::vector<const char*> argv;
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const Environment env{out, err, false, 80, 0, {}, &in};
  Result result;
  result.code = run(static_cast<int>(argv.size()), argv.data(), env);
  result.out = out.str();
  result.err = err.str();
  return result;
}

Result replay_file(const std::string& trace, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"replay", kTraces + trace});
  return run_command("127.0.0.1:1", arguments);
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream row(line);
  for (std::string field; std::getline(row, field, ',');) out.push_back(field);
  return out;
}

TEST(Replay, PrintsWhatTheRealScalersDid) {
  for (const std::string trace :
       {"deepspeed/0-burst.csv", "fairseq/1-storm.csv", "megatron/2-start.csv", "keras3/1-clean.csv"}) {
    SCOPED_TRACE(trace);
    const auto result = replay_file(trace);
    ASSERT_EQ(result.code, kExitOk) << result.err;
    std::ifstream file(kTraces + trace);
    std::istringstream printed(result.out);
    std::string expected;
    std::string line;
    std::getline(file, expected);  // # line
    std::getline(file, expected);
    std::getline(printed, line);
    EXPECT_EQ(line, "step,found_inf,scale_before,skipped,scale_after,note");
    while (std::getline(file, expected)) {
      ASSERT_TRUE(std::getline(printed, line));
      const auto want = fields(expected);
      const auto got = fields(line);
      ASSERT_GE(got.size(), 5u) << line;
      for (std::size_t i = 0; i < 5; ++i) ASSERT_EQ(std::stod(got[i]), std::stod(want[i])) << line << " is not " << expected;
    }
    EXPECT_FALSE(std::getline(printed, line)) << line;
  }
}

TEST(Replay, StopsWhereTheRunWouldEndAndSaysWhy) {
  const std::string input = "# deepspeed init_scale=2 delayed_shift=1\nstep,found_inf\n7,1\n8,1\n9,0\n";
  EXPECT_EQ(replay_input(input).out,
            "step,found_inf,scale_before,skipped,scale_after,note\n"
            "7,1,2,1,1,\n"
            "8,1,1,1,1,\"raises: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\"\n");
  const auto json = nlohmann::json::parse(replay_input(input, {"--json"}).out);
  EXPECT_EQ(json["policy"], "deepspeed");
  ASSERT_EQ(json["steps"].size(), 2u);
  EXPECT_FALSE(json["steps"][0].contains("note"));
  EXPECT_THAT(json["steps"][1]["note"].get<std::string>(), HasSubstr("already at minimum"));
  EXPECT_EQ(json["steps"][1]["skipped"], true);
}

TEST(Replay, TakesColumnsInAnyOrderCountsAndOtherLineEnds) {
  const auto result = replay_input(
      "\xEF\xBB\xBF# a policy named here does not count\r\nnote,found_inf,loss,step\r\n\r\n\"a, \"\"b\"\"\",3,0.1,100\r\n# "
      "comment\r\n"
      ",False,,101\r\n",
      {"--policy", "pytorch", "--set", "init_scale=0.3", "--set", "backoff_factor=0.1", "growth_interval=1"});
  EXPECT_EQ(result.err, "pytorch: 2 steps, 1 skipped (50.0%), 1 growth, scale 0.3 at first, 0.06 at last, 0.03 at least\n");
  std::istringstream out(result.out);
  std::string line;
  std::getline(out, line);
  std::getline(out, line);
  const auto first = fields(line);
  const double before = static_cast<float>(0.3);
  const double after = static_cast<float>(before * 0.1);
  EXPECT_EQ(first[0], "100");
  EXPECT_EQ(first[1], "3");
  EXPECT_EQ(std::stod(first[2]), before);  // exactly
  EXPECT_EQ(std::stod(first[4]), after);
  std::getline(out, line);
  EXPECT_EQ(fields(line)[3], "0");
  EXPECT_EQ(std::stod(fields(line)[4]), 2 * after);
}

TEST(Replay, SetChangesWhatTheTraceSays) {
  const std::string input = "# megatron initial_scale=8 hysteresis=2\nstep,found_inf\n1,1\n";
  EXPECT_THAT(replay_input(input).out, HasSubstr("1,1,8,1,8,\n"));
  EXPECT_THAT(replay_input(input, {"--set", "hysteresis=1"}).out, HasSubstr("1,1,8,1,4,\n"));
}

TEST(Replay, AScaleThatGrewToInfinityIsPrinted) {
  const std::string input = "# keras3 initial_scale=1.7014118346046923e38 dynamic_growth_steps=1\nstep,found_inf\n1,0\n";
  EXPECT_THAT(replay_input(input).out, HasSubstr(",0,inf,\n"));
  EXPECT_EQ(nlohmann::json::parse(replay_input(input, {"--json"}).out)["steps"][0]["scale_after"], "Infinity");
}

struct Bad {
  const char* input;
  const char* says;
};

TEST(Replay, BadInputIsNamedByItsLine) {
  const std::string head = "# pytorch init_scale=2\nstep,found_inf\n";
  const Bad bad[] = {{"", "no header"},
                     {"# pytorch init_scale=2\n", "no header"},
                     {"step,loss\n", ":1: the header has no column \"found_inf\""},
                     {"step,found_inf,step\n", ":1: the header has column \"step\" twice"},
                     {"# pytroch\nstep,found_inf\n", ":1: no policy \"pytroch\"; there are pytorch"},
                     {"# pytorch hysteresis=2\nstep,found_inf\n", ":1: policy pytorch has no parameter \"hysteresis\""},
                     {"# pytorch init_scale=big\n", ":1: \"init_scale=big\" is not"},
                     {"# pytorch init_scale=-2\n", ":1: policy pytorch can't have init_scale = -2"},
                     {"1,x", ":3: found_inf is \"x\""},
                     {"1,-1", ":3: found_inf is \"-1\""},
                     {"1,nan", ":3: found_inf is \"nan\""},
                     {"1,0\n2", ":4: the line has 1 fields"},
                     {"1.5,0", ":3: step is \"1.5\""},
                     {"\x1b[31m,0", "step is \"\\x1b[31m\""},
                     {"1,\"0", ":3: a quoted field"}};
  for (const auto& [input, says] : bad) {
    const bool whole = input[0] == '#' || input[0] == '\0' || input[0] == 's';
    const auto result = replay_input(whole ? input : head + input);
    EXPECT_EQ(result.code, kExitNothing) << input;
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(replay_input(head + std::string(100'000, '1')).err, HasSubstr(":3: the line is longer than 65536 bytes"));
}

TEST(Replay, WrongUseIsSaid) {
  const std::string input = "step,found_inf\n1,0\n";
  EXPECT_EQ(replay_input(input).code, kExitUsage);
  EXPECT_THAT(replay_input(input).err, HasSubstr("--policy"));
  EXPECT_EQ(replay_input(input, {"--policy", "nobody"}).code, kExitUsage);
  EXPECT_THAT(replay_input(input, {"--policy", "none", "--set", "init_scale=1"}).err, HasSubstr("it has none"));
  EXPECT_EQ(replay_input(input, {"--policy", "pytorch", "--set", "init_scale"}).code, kExitUsage);
  EXPECT_EQ(run_command("127.0.0.1:1", {"replay"}).code, kExitUsage);
  const auto missing = run_command("127.0.0.1:1", {"replay", "/nowhere/trace.csv"});
  EXPECT_EQ(missing.code, kExitNothing);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("/nowhere/trace.csv"), HasSubstr("No such file")));
  EXPECT_THAT(run_command("127.0.0.1:1", {"replay", "--help"}).out, HasSubstr("found_inf"));
}

}  // namespace
}  // namespace scalewatch::cli

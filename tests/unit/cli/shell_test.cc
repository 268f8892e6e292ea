// Completion and the manual page say what --help says, and shells take them.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "server/cli/client.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using testing::HasSubstr;

std::string printed(const std::vector<std::string>& arguments) {
  const auto result = run_command("127.0.0.1:1", arguments);  // nobody is asked
  EXPECT_EQ(result.code, kExitOk) << result.err;
  return result.out;
}

// What the shell prints.
std::string shell(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  std::array<char, 4096> buffer{};
  while (pipe && fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr) out += buffer.data();
  return out;
}

TEST(Completion, KnowsEveryCommandAndOption) {
  for (const std::string name : {"bash", "zsh", "fish"}) {
    const auto script = printed({"completion", name});
    for (const auto* word :
         {"runs", "heatmap", "checklist", "ack", "completion", "min-severity", "stat", "critical", "absmax"}) {
      EXPECT_THAT(script, HasSubstr(word)) << name;
    }
  }
}

// Completes the words, the last of which is begun, as bash would.
std::string completed(const std::string& script, const std::string& words, int index) {
  return shell("bash -c 'source " + script + "; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(index) +
               "; _scalewatch; echo \"${COMPREPLY[@]}\"' 2>&1");
}

TEST(Completion, BashCompletesCommandsOptionsAndValues) {
  const std::string script = testing::TempDir() + "/scalewatch.bash";
  std::ofstream(script) << printed({"completion", "bash"});
  EXPECT_EQ(completed(script, "scalewatch heat", 1), "heatmap\n");
  EXPECT_EQ(completed(script, "scalewatch alerts a", 2), "ack\n");
  EXPECT_EQ(completed(script, "scalewatch heatmap run --st", 3), "--stat\n");
  EXPECT_EQ(completed(script, "scalewatch heatmap run --stat ab", 4), "absmax\n");
  EXPECT_EQ(completed(script, "scalewatch --json runs --min-severity w", 4), "warning\n");
  EXPECT_EQ(completed(script, "scalewatch completion f", 2), "fish\n");
}

TEST(Man, HoldsEveryCommandAndNoLineThatRoffWouldObey) {
  const auto page = printed({"man"});
  for (const auto* word :
       {".SH NAME", "scalewatch heatmap", "scalewatch alerts ack", "\\-\\-min\\-severity", "SCALEWATCH_SERVER"}) {
    EXPECT_THAT(page, HasSubstr(word));
  }
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('.')) continue;
    EXPECT_THAT(line, testing::ContainsRegex("^\\.(TH|SH|SS|TP|PP|ad)( |$)"));
  }
}

}  // namespace
}  // namespace scalewatch::cli

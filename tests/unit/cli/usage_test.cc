// What the command says before it asks anybody: slips of the finger, its configuration file, how moments are told.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/cli/cli.h"
#include "server/cli/client.h"
#include "server/cli/words.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Usage, AnUnknownCommandOrOptionSuggestsTheNearest) {
  const auto said = [](const std::vector<std::string>& arguments) {
    const auto result = run_command("127.0.0.1:1", arguments);
    EXPECT_EQ(result.code, kExitUsage);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(said({"shwo", "r"}), StartsWith("scalewatch: unknown command 'shwo': did you mean show?\n"));
  EXPECT_THAT(said({"--json", "heatmpa", "r"}), HasSubstr("did you mean heatmap?"));
  EXPECT_THAT(said({"zzzzzz"}), StartsWith("scalewatch: unknown command 'zzzzzz'\n"));
  EXPECT_THAT(said({"\x1b[2J"}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(said({"runs", "--limt", "3"}), HasSubstr("unknown option '--limt' of runs: did you mean --limit?"));
  EXPECT_THAT(said({}), HasSubstr("which command?"));
  EXPECT_THAT(said({"show"}), HasSubstr("RUN is required"));
}

TEST(Usage, RolesMayBeShortAndUnknownOnesAreAnsweredWithTheList) {
  for (const auto& [typed, meant] :
       std::vector<std::pair<std::string, std::string>>{{"act_grad", "activation_gradient"},
                                                        {"grad", "gradient"},
                                                        {"act", "activation"},
                                                        {"param", "parameter"},
                                                        {"state", "optimizer_state"},
                                                        {"optimizer", "optimizer_state"},
                                                        {"activation-gradient", "activation_gradient"},
                                                        {"buf", "buffer"},
                                                        {"nonsense", "nonsense"}}) {
    EXPECT_EQ(role_meant(typed), meant);
  }
  FakeServer server(collapsing_run());
  EXPECT_EQ(run_command(server.address(), {"top", "digits-hot", "--role", "act_grad"}).code, kExitOk);
  EXPECT_EQ(server.top_request.role(), v1::ROLE_ACTIVATION_GRADIENT);
  const auto wrong = run_command(server.address(), {"top", "digits-hot", "--role", "weights"});
  EXPECT_EQ(wrong.code, kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("activation_gradient"));
}

TEST(Usage, AFileThatDoesNotExistIsNotTakenForARunInSilence) {
  const FakeServer server(collapsing_run());
  const auto result = run_command(server.address(), {"checklist", "nosuch.log"});
  EXPECT_EQ(result.code, kExitNothing);
  EXPECT_THAT(result.err, HasSubstr("no file nosuch.log exists"));
}

// A configuration file that lives as long as the test.
class Config : public testing::Test {
 protected:
  Config() : path_(std::filesystem::temp_directory_path() / ("scalewatch-config-" + std::to_string(getpid()) + ".yaml")) {}
  ~Config() override { std::filesystem::remove(path_); }

  Result with(const std::string& file, const std::vector<std::string>& arguments, bool required = true) {
    if (!file.empty()) std::ofstream(path_) << file;
    std::vector<const char*> argv{"scalewatch"};
    for (const auto& argument : arguments) argv.push_back(argument.c_str());
    std::ostringstream out;
    std::ostringstream err;
    Environment around{out, err, true, 80, kNow, {}};
    around.config = ConfigPath{path_.string(), required};
    Result result;
    result.code = run(static_cast<int>(argv.size()), argv.data(), around);
    result.out = out.str();
    result.err = err.str();
    return result;
  }

 private:
  std::filesystem::path path_;
};

TEST_F(Config, IsOutdoneByTheEnvironmentAndThatByAnOption) {
  const FakeServer server(collapsing_run());
  const std::string file = "server: " + server.address() + "\ncolor: false\ntime: utc\n";
  const auto plain = with(file, {"runs"});
  EXPECT_EQ(plain.code, kExitOk) << plain.err;
  EXPECT_THAT(plain.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plain.out, testing::ContainsRegex("[0-9-]+ [0-9:]+Z"));
  const auto outdone = with(file, {"runs", "--color", "--time", "relative"});
  EXPECT_THAT(outdone.out, HasSubstr("\x1b["));
  EXPECT_THAT(outdone.out, HasSubstr(" ago"));
  setenv("SCALEWATCH_SERVER", "127.0.0.1:1", 1);
  EXPECT_EQ(with(file, {"runs"}).code, kExitNothing);
  EXPECT_EQ(with(file, {"runs", "--server", server.address()}).code, kExitOk);
  setenv("SCALEWATCH_SERVER", "127.0.0.1:1,127.0.0.1:2", 1);  // as trainers have it
  EXPECT_THAT(with(file, {"runs"}).err, HasSubstr("takes one of them"));
  unsetenv("SCALEWATCH_SERVER");
  EXPECT_THAT(with("unicode: false\nserver: " + server.address(), {"scaler", "digits-hot"}).out, Not(HasSubstr("┤")));
}

TEST_F(Config, SaysWhatIsWrongWithItAndWhere) {
  const auto wrong = [&](const std::string& file) {
    const auto result = with(file, {"runs"});
    EXPECT_EQ(result.code, kExitUsage) << file;
    return result.err;
  };
  EXPECT_THAT(wrong("color: false\nsevrer: a:1\n"), HasSubstr(":2: unknown key 'sevrer': did you mean server?"));
  EXPECT_THAT(wrong("color: green\n"), HasSubstr(":1: the value of color is not of its kind"));
  EXPECT_THAT(wrong("time: soon\n"), HasSubstr("relative, absolute or utc"));
  EXPECT_THAT(wrong("width: -4\n"), HasSubstr("width"));
  EXPECT_THAT(wrong("- a\n- b\n"), HasSubstr("KEY: VALUE"));
  EXPECT_THAT(wrong("a: [\n"), Not(HasSubstr("\x1b")));
  EXPECT_THAT(wrong("server: here\n"), HasSubstr("HOST:PORT"));
}

TEST_F(Config, MayBeAbsentUnlessItWasNamed) {
  const FakeServer server(collapsing_run());
  EXPECT_EQ(with("", {"runs", "--server", server.address()}, false).code, kExitOk);
  EXPECT_THAT(with("", {"runs", "--server", server.address()}, true).err, HasSubstr("can't be read"));
}

}  // namespace
}  // namespace scalewatch::cli

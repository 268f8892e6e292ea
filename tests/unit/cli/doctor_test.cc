// `scalewatch doctor FILE`: exit codes, JSON, compressed files, nothing to read.
#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "server/cli/client.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Doctor : public testing::Test {
 protected:
  Doctor() : folder_(fs::temp_directory_path() / ("scalewatch-doctor-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Doctor() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // No server is asked: there is none.
  static Result doctor(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "doctor");
    return run_command("127.0.0.1:1", arguments);
  }

  fs::path folder_;
};

std::string steps(int count) {
  std::string out;
  for (int step = 1; step <= count; ++step) {
    out += "step " + std::to_string(step) + " loss: " + std::to_string(2 + 1.0 / step) + " lr: 0.0003\n";
  }
  return out;
}

std::string overflows(int count) {
  std::string out;
  double scale = 65536;
  for (int i = 0; i < count; ++i) {
    scale /= 2;
    out += "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to " + std::to_string(scale) + "\n";
  }
  return out;
}

TEST_F(Doctor, TheExitCodeIsTheVerdict) {
  EXPECT_EQ(doctor({file("fine.log", steps(100))}).code, kExitOk);
  EXPECT_EQ(doctor({file("spike.log", steps(60) + "step 61 loss: 50 lr: 0.0003\nstep 62 loss: 51 lr: 0.0003\nstep 63 loss: 52 "
                                                  "lr: 0.0003\n")})
                .code,
            kExitWarning);
  EXPECT_EQ(doctor({file("bad.log", steps(100) + overflows(20))}).code, kExitCritical);
  const auto nothing = doctor({file("notes.txt", "buy milk\n")});
  EXPECT_EQ(nothing.code, kExitNothing);
  EXPECT_THAT(nothing.err, HasSubstr("ooked for"));
  EXPECT_EQ(doctor({(folder_ / "missing.log").string()}).code, kExitNothing);
  EXPECT_EQ(doctor({}).code, kExitUsage);
}

TEST_F(Doctor, AVerdictOfOneAttemptSaysSo) {
  constexpr auto kSaid = "the verdict is of so few attempts";
  EXPECT_THAT(doctor({file("one.log", "step 100 loss: nan lr: 0.0003\n")}).out, HasSubstr(kSaid));
  EXPECT_THAT(doctor({file("many.log", steps(100) + overflows(20))}).out, Not(HasSubstr(kSaid)));
}

TEST_F(Doctor, JsonHasItsShape) {
  const auto result = doctor({"--json", file("bad.log", steps(100) + overflows(20))});
  EXPECT_EQ(result.code, kExitCritical);
  const auto told = nlohmann::json::parse(result.out);
  EXPECT_EQ(told.at("verdict"), "critical");
  EXPECT_TRUE(told.at("format").is_string());
  EXPECT_EQ(told.at("attempts").at("seen"), 120);
  EXPECT_EQ(told.at("attempts").at("applied"), 100);
  EXPECT_EQ(told.at("attempts").at("skipped"), 20);
  for (const auto* key : {"first", "last", "min"}) EXPECT_TRUE(told.at("scale").at(key).is_number()) << key;
  ASSERT_FALSE(told.at("findings").empty());
  for (const auto& finding : told.at("findings")) {
    for (const auto* key : {"rule", "severity", "first_step", "last_step", "line", "ranks", "blamed", "evidence", "advice"}) {
      EXPECT_TRUE(finding.contains(key)) << key;
    }
    EXPECT_GT(finding.at("line"), 100);
    EXPECT_LE(finding.at("line"), 120);
  }
}

TEST_F(Doctor, CompressedLogsAndOneFormatOnly) {
  const std::string text = steps(100) + overflows(20);
  const std::string path = folder_ / "bad.log.gz";
  gzFile out = gzopen(path.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  EXPECT_EQ(doctor({path}).code, kExitCritical);
  EXPECT_EQ(doctor({path, "--format", "megatron"}).code, kExitNothing);
  EXPECT_EQ(doctor({path, "--format", "no_such"}).code, kExitUsage);
}

}  // namespace
}  // namespace scalewatch::cli

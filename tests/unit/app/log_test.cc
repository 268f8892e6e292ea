#include "server/app/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace scalewatch::app::log {
namespace {

constexpr std::int64_t kTime = 1'700'000'000'042;

TEST(Log, Text) {
  EXPECT_EQ(text_line(Level::kInfo, "started", {{"port", "7462"}, {"dir", "my data"}, {"empty", ""}}, kTime),
            R"(2023-11-14T22:13:20.042Z info    started port=7462 dir="my data" empty="")");
}

TEST(Log, TextStaysOneLineWhateverIsInIt) {
  const std::string line = text_line(Level::kError, "a\nb", {{"run", "x\" y=1\n\x1b[31m\xff"}}, kTime);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_THAT(line, ::testing::HasSubstr(R"(a\nb run="x\" y=1\n\u001b[31m)"));
}

TEST(Log, Json) {
  const std::string line = json_line(Level::kWarning, "say \"hi\"", {{"run", "a\nb\xff"}}, kTime);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("time"), "2023-11-14T22:13:20.042Z");
  EXPECT_EQ(json.at("level"), "warning");
  EXPECT_EQ(json.at("message"), "say \"hi\"");
  EXPECT_EQ(json.at("run"), "a\nb\xEF\xBF\xBD");
}

TEST(Log, NothingInALineSpeaksToTheTerminal) {
  const std::string odd =
      "a\x7f\xC2\x9B"
      "2J\xE2\x80\xAE\xE2\x81\xA6\xEF\xBB\xBF\xC3\xA4";
  EXPECT_EQ(text_line(Level::kInfo, "m", {{"run", odd}}, kTime).substr(33), R"(m run="a\u007f\u009b2J\u202e\u2066\ufeff)"
                                                                            "\xC3\xA4\"");
  EXPECT_EQ(nlohmann::json::parse(json_line(Level::kInfo, odd, {}, kTime)).at("message"), odd);
}

TEST(Log, ValuesAreBounded) {
  const std::string huge(1 << 20, 'x');
  EXPECT_LT(text_line(Level::kInfo, huge, {{"a", huge}}, kTime).size(), 3 * kMaxValueBytes);
  EXPECT_LT(json_line(Level::kInfo, huge, {{"a", huge}}, kTime).size(), 3 * kMaxValueBytes);
}

}  // namespace
}  // namespace scalewatch::app::log

// Real logs: every failure is found, no healthy run is disturbed, also when the log is cut anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "tests/unit/logimport/read_cases.h"

namespace scalewatch::logimport {
namespace {

using domain::Severity;

const std::vector<LogCase>& cases() {
  static const std::vector<LogCase> all = read_cases("logs");
  return all;
}

TEST(Cases, EveryFailureIsFoundAndNoControlIsDisturbed) {
  ASSERT_EQ(cases().size(), 36U);
  int level = 0;
  for (const LogCase& one : cases()) {
    const auto diagnosis = diagnose_text(one.log);
    SCOPED_TRACE(one.id + ": " + told_text(diagnosis));
    if (one.control) {
      EXPECT_LE(diagnosis.verdict, Severity::kInfo);
    } else {
      EXPECT_TRUE(found_any(diagnosis, one.any_of));
    }
    level += diagnosis.verdict >= one.level ? 1 : 0;
    const auto lines = static_cast<std::uint64_t>(std::count(one.log.begin(), one.log.end(), '\n')) + 1;
    for (const auto& finding : diagnosis.findings) {
      EXPECT_GE(finding.line, 1U) << finding.rule;
      EXPECT_LE(finding.line, lines) << finding.rule;
    }
  }
  std::cout << level << " of " << cases().size() << " verdicts reach their level\n";
  EXPECT_EQ(level, 36);
}

// What a headline says must hold for who counts the lines himself.
TEST(Cases, HeadlinesSayWhatTheLogDoesNotHold) {
  const auto headline = [](std::string_view id) {
    const auto one = std::find_if(cases().begin(), cases().end(), [&](const LogCase& c) { return c.id == id; });
    return one == cases().end() ? std::string() : diagnose_text(one->log).headline;
  };
  EXPECT_THAT(headline("gpt-neo-finetune-7"),
              ::testing::HasSubstr("none of 14 attempts (9 of them, by the log's own count, before its first line) when the "
                                   "log ended"));
  EXPECT_THAT(headline("fairseq-4244"), ::testing::HasSubstr("Inf in the activation (unnamed module)"));
}

// A file that is still being written, or was copied in part.
TEST(Cases, CutAtAnyLine) {
  for (const LogCase& one : cases()) {
    bool before = false;
    for (std::size_t end = 0; end != std::string::npos; end = one.log.find('\n', end + 1)) {
      const auto diagnosis = diagnose_text(std::string_view(one.log).substr(0, end));
      SCOPED_TRACE(one.id + " cut at byte " + std::to_string(end) + ": " + told_text(diagnosis));
      if (one.control) {
        EXPECT_LE(diagnosis.verdict, Severity::kInfo);
      } else {
        // What was found is found with more of the log as well.
        EXPECT_TRUE(!before || found_any(diagnosis, one.any_of));
        before = before || found_any(diagnosis, one.any_of);
      }
    }
    for (std::size_t begin = one.log.find('\n'); begin != std::string::npos; begin = one.log.find('\n', begin + 1)) {
      const auto diagnosis = diagnose_text(std::string_view(one.log).substr(begin + 1));
      if (!one.control) continue;
      EXPECT_LE(diagnosis.verdict, Severity::kInfo) << one.id << " from byte " << begin << ": " << told_text(diagnosis);
    }
  }
}

// Every rank prints its own skips; the verdict stays.
TEST(Cases, LinesOfSeveralRanksSayTheSame) {
  for (const LogCase& one : cases()) {
    std::string twice;
    std::istringstream lines(one.log);
    for (std::string line; std::getline(lines, line);) twice += line + "\n" + line + "\n";
    const auto diagnosis = diagnose_text(twice);
    SCOPED_TRACE(one.id + ": " + told_text(diagnosis));
    if (one.control) {
      EXPECT_LE(diagnosis.verdict, Severity::kInfo);
    } else {
      EXPECT_TRUE(found_any(diagnosis, one.any_of));
    }
  }
}

}  // namespace
}  // namespace scalewatch::logimport

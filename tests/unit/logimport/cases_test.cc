// Real logs: every failure is found, no healthy run is disturbed, also when the log is cut anywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "server/logimport/diagnose.h"

namespace scalewatch::logimport {
namespace {

using domain::Severity;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

domain::Diagnosis diagnose(std::string_view log) {
  LogDoctor doctor;
  doctor.begin_file();
  doctor.feed(log);
  doctor.end_file();
  doctor.finish();
  return doctor.diagnosis();
}

struct Case {
  std::string id;
  bool control = false;
  Severity level = Severity::kNone;
  std::vector<std::string> any_of;
  std::string log;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out;
    const auto expectations = nlohmann::json::parse(read(std::string(SCALEWATCH_TEST_DATA) + "/logs/expectations.json"));
    for (const auto& expected : expectations) {
      Case one;
      one.id = expected.at("id");
      one.control = expected.at("control");
      const std::string level = expected.at("level");
      one.level = level == "critical"  ? Severity::kCritical
                  : level == "warning" ? Severity::kWarning
                  : level == "info"    ? Severity::kInfo
                                       : Severity::kNone;
      one.any_of = expected.at("expect_any_of").get<std::vector<std::string>>();
      one.log = read(std::string(SCALEWATCH_TEST_DATA) + "/logs/" + one.id + ".log");
      out.push_back(std::move(one));
    }
    return out;
  }();
  return all;
}

std::string told(const domain::Diagnosis& diagnosis) {
  std::string out = domain::verdict_text(diagnosis.verdict);
  for (const auto& finding : diagnosis.findings) {
    out += " " + finding.rule + "(" + domain::verdict_text(finding.severity) + ", line " + std::to_string(finding.line) + ")";
  }
  return out;
}

bool found(const domain::Diagnosis& diagnosis, const std::vector<std::string>& any_of) {
  return std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), [&](const domain::Finding& finding) {
    return finding.severity >= Severity::kWarning && std::find(any_of.begin(), any_of.end(), finding.rule) != any_of.end();
  });
}

TEST(Cases, EveryFailureIsFoundAndNoControlIsDisturbed) {
  ASSERT_EQ(cases().size(), 36U);
  int level = 0;
  for (const Case& one : cases()) {
    const auto diagnosis = diagnose(one.log);
    SCOPED_TRACE(one.id + ": " + told(diagnosis));
    if (one.control) {
      EXPECT_LE(diagnosis.verdict, Severity::kInfo);
    } else {
      EXPECT_TRUE(found(diagnosis, one.any_of));
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

// A file that is still being written, or was copied in part.
TEST(Cases, CutAtAnyLine) {
  for (const Case& one : cases()) {
    bool before = false;
    for (std::size_t end = 0; end != std::string::npos; end = one.log.find('\n', end + 1)) {
      const auto diagnosis = diagnose(std::string_view(one.log).substr(0, end));
      SCOPED_TRACE(one.id + " cut at byte " + std::to_string(end) + ": " + told(diagnosis));
      if (one.control) {
        EXPECT_LE(diagnosis.verdict, Severity::kInfo);
      } else {
        // What was found is found with more of the log as well.
        EXPECT_TRUE(!before || found(diagnosis, one.any_of));
        before = before || found(diagnosis, one.any_of);
      }
    }
    for (std::size_t begin = one.log.find('\n'); begin != std::string::npos; begin = one.log.find('\n', begin + 1)) {
      const auto diagnosis = diagnose(std::string_view(one.log).substr(begin + 1));
      if (!one.control) continue;
      EXPECT_LE(diagnosis.verdict, Severity::kInfo) << one.id << " from byte " << begin << ": " << told(diagnosis);
    }
  }
}

// Every rank prints its own skips; the verdict stays.
TEST(Cases, LinesOfSeveralRanksSayTheSame) {
  for (const Case& one : cases()) {
    std::string twice;
    std::istringstream lines(one.log);
    for (std::string line; std::getline(lines, line);) twice += line + "\n" + line + "\n";
    const auto diagnosis = diagnose(twice);
    SCOPED_TRACE(one.id + ": " + told(diagnosis));
    if (one.control) {
      EXPECT_LE(diagnosis.verdict, Severity::kInfo);
    } else {
      EXPECT_TRUE(found(diagnosis, one.any_of));
    }
  }
}

}  // namespace
}  // namespace scalewatch::logimport

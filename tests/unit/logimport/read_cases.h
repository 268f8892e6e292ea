// Logs of tests/data/logs with what is expected of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "server/logimport/diagnose.h"

namespace scalewatch::logimport {

struct LogCase {
  std::string id;
  bool control = false;
  domain::Severity level = domain::Severity::kNone;
  std::vector<std::string> any_of;
  std::string log;
};

inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// folder: below tests/data.
inline std::vector<LogCase> read_cases(const std::string& folder) {
  const std::string at = std::string(SCALEWATCH_TEST_DATA) + "/" + folder + "/";
  std::vector<LogCase> out;
  for (const auto& expected : nlohmann::json::parse(read_whole(at + "expectations.json"))) {
    LogCase one;
    one.id = expected.at("id");
    one.control = expected.at("control");
    const std::string level = expected.at("level");
    one.level = level == "critical"  ? domain::Severity::kCritical
                : level == "warning" ? domain::Severity::kWarning
                : level == "info"    ? domain::Severity::kInfo
                                     : domain::Severity::kNone;
    one.any_of = expected.at("expect_any_of").get<std::vector<std::string>>();
    one.log = read_whole(at + one.id + ".log");
    out.push_back(std::move(one));
  }
  return out;
}

inline domain::Diagnosis diagnose_text(std::string_view log) {
  LogDoctor doctor;
  doctor.begin_file();
  doctor.feed(log);
  doctor.end_file();
  doctor.finish();
  return doctor.diagnosis();
}

inline std::string told_text(const domain::Diagnosis& diagnosis) {
  std::string out = domain::verdict_text(diagnosis.verdict);
  for (const auto& finding : diagnosis.findings) {
    out += " " + finding.rule + "(" + domain::verdict_text(finding.severity) + ", line " + std::to_string(finding.line) + ")";
  }
  return out;
}

inline bool found_any(const domain::Diagnosis& diagnosis, const std::vector<std::string>& any_of) {
  return std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), [&](const domain::Finding& finding) {
    return finding.severity >= domain::Severity::kWarning &&
           std::find(any_of.begin(), any_of.end(), finding.rule) != any_of.end();
  });
}

// Whether the log, as it is or altered, still gets the verdict that the case wants.
inline void expect_verdict(const LogCase& one, std::string_view log, std::string_view what) {
  const auto diagnosis = diagnose_text(log);
  SCOPED_TRACE(one.id + ", " + std::string(what) + ": " + told_text(diagnosis));
  if (one.control) {
    EXPECT_LE(diagnosis.verdict, domain::Severity::kInfo);
  } else {
    EXPECT_TRUE(found_any(diagnosis, one.any_of));
  }
}

}  // namespace scalewatch::logimport

#include "server/domain/diagnosis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

Finding finding(std::string rule, Severity severity, Attempt first) {
  Finding f;
  f.rule = std::move(rule);
  f.severity = severity;
  f.first_attempt = first;
  f.summary = "what " + f.rule + " says";
  return f;
}

TEST(Diagnosis, HealthyWithNumbers) {
  Driver driver;
  driver.attempts(2, true);
  driver.attempts(98, false);
  const Diagnosis diagnosis = diagnose(facts_of(driver.state.view()), {});
  EXPECT_EQ(diagnosis.verdict, Severity::kNone);
  EXPECT_EQ(diagnosis.headline, "nothing is wrong with this run: 100 attempts, 2 skipped, scale 2^14");
  EXPECT_EQ(diagnosis.facts.scale_first, 65536);
  EXPECT_NE(diagnose({}, {}).headline.find("no attempt"), std::string::npos);
}

TEST(Diagnosis, TheRootComesFirst) {
  const Diagnosis diagnosis =
      diagnose({}, {finding("FrequentSkippedSteps", Severity::kWarning, 3), finding("NonFiniteGradient", Severity::kInfo, 1),
                    finding("ConsecutiveSkips", Severity::kCritical, 4), finding("NonFiniteWeights", Severity::kCritical, 9),
                    finding("NonFiniteApplied", Severity::kCritical, 8)});
  EXPECT_EQ(diagnosis.verdict, Severity::kCritical);
  std::vector<std::string> rules;
  for (const Finding& f : diagnosis.findings) rules.push_back(f.rule);
  EXPECT_EQ(rules, (std::vector<std::string>{"NonFiniteWeights", "NonFiniteApplied", "ConsecutiveSkips", "FrequentSkippedSteps",
                                             "NonFiniteGradient"}));
  EXPECT_EQ(diagnosis.headline, "NonFiniteWeights: what NonFiniteWeights says");
}

TEST(Diagnosis, InfoAloneIsNoWarning) {
  EXPECT_EQ(diagnose({}, {finding("EndedWithoutGoodbye", Severity::kInfo, 1)}).verdict, Severity::kInfo);
  EXPECT_EQ(verdict_text(Severity::kInfo), "info");
}

TEST(Diagnosis, NothingToDoIsNotSaidBesideAWarning) {
  Finding calm = finding("NonFiniteGradient", Severity::kInfo, 1);
  calm.advice = {{"calm", "nothing to do", 0.8}};
  EXPECT_EQ(diagnose({}, {calm}).findings.front().advice.size(), 1u);
  const Diagnosis diagnosis = diagnose({}, {calm, finding("ConsecutiveSkips", Severity::kCritical, 4)});
  EXPECT_TRUE(diagnosis.findings.back().advice.empty());
}

TEST(Diagnosis, TheHeadlineNamesTheOriginOnce) {
  Driver driver;
  driver.attempt(false);
  driver.attempts(6, true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 0, 4); });
  const Diagnosis diagnosis = diagnose(facts_of(driver.state.view()), driver.state.view().open);
  EXPECT_EQ(diagnosis.findings.front().rule, "ConsecutiveSkips");
  EXPECT_EQ(diagnosis.headline,
            "ConsecutiveSkips: 6 attempts in a row were skipped by scaler default, the limit is 5; it began in gradient "
            "layers.1.weight");
}

}  // namespace
}  // namespace scalewatch::domain

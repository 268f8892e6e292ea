// Wrong use of the scaler, as clients tell it and as the numbers show it; and no scaler at all.
#include <gtest/gtest.h>

#include "server/domain/rank_state.h"
#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

const Finding* misuse(const Driver& driver, const std::string& kind) {
  for (auto event = driver.events.rbegin(); event != driver.events.rend(); ++event) {
    if (event->finding.rule == "Misuse" && event->finding.subject == kind) return &event->finding;
  }
  return nullptr;
}

Driver::Edit told(const std::string& kind, bool raised = false) {
  return [=](AttemptDigest& digest) { digest.misuse = {{kind, "as the client says", raised}}; };
}

TEST(MissingScaler, FiresAtTheFirstAttemptOfFp16) {
  for (const bool none : {false, true}) {
    Driver driver({.policy = "none", .scaler = none});
    driver.attempt(false);
    ASSERT_TRUE(driver.open("MissingScaler"));
    EXPECT_EQ(driver.find("MissingScaler")->severity, Severity::kWarning);
    EXPECT_EQ(driver.find("MissingScaler")->advice.front().id, "enable_scaler");
    driver.attempts(30, false);
    EXPECT_EQ(driver.count("MissingScaler", Change::kOpened), 1);
  }
}

TEST(MissingScaler, ResolvesOnceTheTrainerHasOne) {
  Driver driver({.scaler = false});
  driver.attempts(5, false);
  ASSERT_TRUE(driver.open("MissingScaler"));
  driver.options.scaler = true;
  driver.join(0);
  driver.attempt(false);
  EXPECT_FALSE(driver.open("MissingScaler"));
}

TEST(MissingScaler, IsSilentForOtherFormatsForEvaluationAndWithAnyScaler) {
  Driver bf16({.compute = DType::kBf16, .scaler = false});
  bf16.attempts(5, false);
  EXPECT_EQ(bf16.find("MissingScaler"), nullptr);
  Driver evaluation({.scaler = false});
  evaluation.attempts(5, false, [](AttemptDigest& digest) { digest.phase = Phase::kEval; });
  EXPECT_EQ(evaluation.find("MissingScaler"), nullptr);
  Driver fixed({.policy = "static", .parameters = {{"init_scale", 128}}});
  fixed.attempts(5, false);
  EXPECT_EQ(fixed.find("MissingScaler"), nullptr);
}

TEST(Misuse, WhatTheClientTellsWarnsAndIsCriticalWhenRefused) {
  Driver driver;
  driver.attempts(2, false);
  driver.attempt(false, told("unscale_twice"));
  ASSERT_NE(misuse(driver, "unscale_twice"), nullptr);
  EXPECT_EQ(misuse(driver, "unscale_twice")->severity, Severity::kWarning);
  driver.attempt(false, told("unscale_twice", true));
  EXPECT_EQ(misuse(driver, "unscale_twice")->severity, Severity::kCritical);
  EXPECT_EQ(driver.count("Misuse", Change::kOpened), 1);
  EXPECT_EQ(driver.count("Misuse", Change::kEscalated), 1);
  driver.attempts(50, false);
  EXPECT_FALSE(misuse(driver, "unscale_twice")->open);
}

TEST(Misuse, EveryKnownKindHasItsOwnWordsAndAdvice) {
  for (const char* kind :
       {"clip_before_unscale", "unscale_twice", "unscale_after_step", "step_twice", "step_without_scale", "update_missing",
        "update_twice", "update_without_checks", "out_of_order", "no_inf_checks", "no_gradients", "fp16_parameters",
        "scale_changed", "scaler_not_restored", "scheduler_on_skip", "scheduler_never", "bad_scale"}) {
    Driver driver;
    driver.attempt(false, told(kind));
    const Finding* finding = misuse(driver, kind);
    ASSERT_NE(finding, nullptr) << kind;
    ASSERT_FALSE(finding->advice.empty()) << kind;
    EXPECT_GT(finding->advice.front().confidence, 0.5) << kind;
    EXPECT_GT(finding->summary.size(), std::string("as the client says").size() + 5) << kind;
  }
}

TEST(Misuse, KindsWithoutEndBecomeOne) {
  Driver driver;
  for (int i = 0; i < 100; ++i) driver.attempt(false, told("kind" + std::to_string(i)));
  EXPECT_NE(misuse(driver, "other"), nullptr);
  EXPECT_LE(driver.state.view().open.size(), 40u);
}

// Norm under a scale of 2^16, and a loss that moves.
Driver::Edit norm_at(double norm, double loss) {
  return [=](AttemptDigest& digest) {
    digest.observed_gradients = true;
    digest.gradient_norm = norm;
    digest.gradient_scale = 65536;
    digest.loss = loss;
  };
}

TEST(Misuse, AConstantNormUnderTheScaleIsAClipBeforeUnscale) {
  Driver driver;
  for (int i = 0; i < 9; ++i) driver.attempt(false, norm_at(12 * (1 + 1e-5 * i), 2 + 0.1 * i));
  EXPECT_EQ(driver.find("Misuse"), nullptr);
  driver.attempt(false, norm_at(12, 3));
  const Finding* finding = misuse(driver, "clip_before_unscale");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_NE(finding->advice.front().text.find("0.000183"), std::string::npos);
}

TEST(Misuse, OtherConstantNormsAreFine) {
  Driver moving;
  for (int i = 0; i < 40; ++i) moving.attempt(false, norm_at(12 * (1 + 0.01 * (i % 5)), 2 + 0.1 * i));
  EXPECT_EQ(moving.find("Misuse"), nullptr);
  Driver unscaled;  // clipped after unscale_, measured after that
  for (int i = 0; i < 40; ++i) {
    unscaled.attempt(false, [&](AttemptDigest& digest) {
      norm_at(1, 2 + 0.1 * i)(digest);
      digest.gradient_scale = 1;
    });
  }
  EXPECT_EQ(unscaled.find("Misuse"), nullptr);
  Driver by_scale;  // max_norm times the scale
  for (int i = 0; i < 40; ++i) by_scale.attempt(false, norm_at(65536, 2 + 0.1 * i));
  EXPECT_EQ(by_scale.find("Misuse"), nullptr);
  Driver frozen;  // nothing moves at all
  for (int i = 0; i < 40; ++i) frozen.attempt(false, norm_at(12, 2));
  EXPECT_EQ(frozen.find("Misuse"), nullptr);
}

TEST(Misuse, AGrowthTrackerThatStandsMissesUpdate) {
  const DriverOptions known{.parameters = {{"init_scale", 65536}, {"growth_interval", 2000}}};
  const auto tracker = [](std::uint64_t value) {
    return [=](AttemptDigest& digest) { digest.scalers[0].growth_tracker = value; };
  };
  Driver driver(known);
  driver.attempts(6, false, tracker(7));
  EXPECT_NE(misuse(driver, "update_missing"), nullptr);
  Driver counting(known);
  for (std::uint64_t i = 1; i < 40; ++i) counting.attempt(false, tracker(i));
  EXPECT_EQ(counting.find("Misuse"), nullptr);
}

// A learning rate that decays; `stepped` counts the scheduler's steps.
TEST(Misuse, ASchedulerThatStepsOnSkipsWarnsAboveFivePercent) {
  const auto run = [](bool on_skip, bool after, int every) {
    Driver driver;
    int stepped = 0;
    for (int i = 0; i < 100; ++i) {
      const bool skip = i > 0 && i % every == 0;
      const int before = stepped;
      if (!skip || on_skip) ++stepped;
      driver.attempt(skip, [&](AttemptDigest& digest) { digest.lr = 0.1 / (10 + (after ? stepped : before)); });
    }
    const Finding* finding = misuse(driver, "scheduler_on_skip");
    return finding == nullptr ? Severity::kNone : finding->severity;
  };
  for (const bool after : {false, true}) {
    EXPECT_EQ(run(true, after, 12), Severity::kWarning) << after;
    EXPECT_EQ(run(true, after, 40), Severity::kInfo) << after;
    EXPECT_EQ(run(false, after, 12), Severity::kNone) << after;
  }
}

TEST(Misuse, TheNormOfAReportIsThatOfAllItsGradientRecords) {
  const Driver driver;
  const auto fold = [&](std::vector<float> high, std::vector<double> sum_sq) {
    const std::vector<std::uint32_t> ids{kGrad0, kGrad1};
    const std::vector<float> low(2, 0.0F);
    const std::vector<double> sum(2, 0.0);
    RecordColumns block;
    block.role = Role::kGradient;
    block.measured_under_scale = 1024;
    block.target = DType::kFp16;
    block.count = 2;
    block.ids = ids;
    block.min = low;
    block.max = high;
    block.absmin_nonzero = high;
    block.sum = sum;
    block.sum_sq = sum_sq;
    AttemptDigest digest = driver.digest(0, false);
    RankState state;
    state.fold({&block, 1}, digest);
    return digest;
  };
  const AttemptDigest digest = fold({3, 4}, {9, 16});
  EXPECT_DOUBLE_EQ(digest.gradient_norm.value_or(0), 5);
  EXPECT_EQ(digest.gradient_scale, 1024);
  EXPECT_FALSE(digest.gradients_zero);
  EXPECT_TRUE(fold({0, 0}, {0, 0}).gradients_zero);
}

}  // namespace
}  // namespace scalewatch::domain

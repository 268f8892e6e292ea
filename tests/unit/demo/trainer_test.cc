// The modes on the level of arithmetic, without a server or a monitor.
#include "deploy/demo/trainer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

namespace scalewatch::demo {
namespace {

const Corpus& corpus() {
  static const Corpus text = Corpus::load(Corpus::kPath);
  return text;
}

std::vector<StepResult> train(Mode mode, std::uint64_t steps) {
  TrainerOptions options;
  options.mode = mode;
  options.steps = steps;
  RankGroup group(1, 0);
  Trainer trainer(options, corpus(), group, 0, nullptr);
  std::vector<StepResult> results;
  for (std::uint64_t step = 1; step <= steps; ++step) results.push_back(trainer.step(step));
  return results;
}

TEST(Trainer, HealthyLearnsAndItsScaleGrows) {
  const auto results = train(Mode::kHealthy, 220);
  double late = 0;
  for (std::size_t i = 200; i < 220; ++i) late += results[i].loss / 20;
  EXPECT_GT(results[0].loss, 4.0);
  EXPECT_LT(late, 2.5);
  for (const auto& result : results) EXPECT_TRUE(result.applied);
  EXPECT_EQ(results[0].scale_before, 0x1p15);
  EXPECT_EQ(results[99].scale_after, 0x1p16);
  EXPECT_EQ(results[199].scale_after, 0x1p17);
}

TEST(Trainer, TheScaleIsTurnedBackAtTheEdge) {
  TrainerOptions options;
  options.init_scale = 0x1p21;
  RankGroup group(1, 0);
  Trainer trainer(options, corpus(), group, 0, nullptr);
  StepResult result = trainer.step(1);
  EXPECT_FALSE(result.applied);
  EXPECT_EQ(result.scale_after, 0x1p20);
  for (std::uint64_t step = 2; step <= 20; ++step) result = trainer.step(step);
  EXPECT_TRUE(result.applied);
  EXPECT_GE(result.scale_after, 0x1p15);
}

TEST(Trainer, HotOverflowsByItself) {
  const auto results = train(Mode::kHot, 200);
  EXPECT_TRUE(results[0].applied);
  EXPECT_TRUE(std::isfinite(results[0].loss));
  EXPECT_FALSE(std::isfinite(results.back().loss));  // the data are finite: the forward pass overflowed
  for (const auto& result : results) EXPECT_FALSE(result.input_non_finite);
  EXPECT_LT(results.back().scale_after, 1.0);
}

TEST(Trainer, NanDataSpoilsOneStepAndTheRunGoesOn) {
  const auto results = train(Mode::kNanData, 40);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].applied, i != 19) << i;
    EXPECT_EQ(results[i].input_non_finite, i == 19) << i;
  }
  EXPECT_TRUE(std::isnan(results[19].loss));
  EXPECT_EQ(results[19].scale_after, results[19].scale_before / 2);
  EXPECT_TRUE(std::isfinite(results.back().loss));
}

TEST(Trainer, NoUpdateNeverFindsAScaleThatFits) {
  for (const auto& result : train(Mode::kNoUpdate, 30)) {
    EXPECT_FALSE(result.applied);
    EXPECT_EQ(result.scale_after, 0x1p22);
    EXPECT_TRUE(std::isfinite(result.loss));
  }
}

TEST(Trainer, TheSameSeedGivesTheSameBits) {
  const auto one = train(Mode::kHealthy, 5);
  const auto two = train(Mode::kHealthy, 5);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].loss, two[i].loss);
    EXPECT_EQ(one[i].gradient_norm, two[i].gradient_norm);
  }
}

TEST(Trainer, RanksSeeTheirOwnDataAndTakeTheSameStep) {
  RankGroup group(2, Trainer::gradient_elements(corpus()));
  const int status = run_ranks(2, [&](std::uint32_t rank) {
    Trainer trainer({}, corpus(), group, rank, nullptr);
    StepResult result;
    for (std::uint64_t step = 1; step <= 3; ++step) result = trainer.step(step);
    // The mean over ranks equals a rank's own value only where both are the same.
    std::array<Half, 2> values{static_cast<Half>(result.gradient_norm), static_cast<Half>(result.loss)};
    const std::array<Half, 2> mine = values;
    const std::array<std::span<Half>, 1> tensors{values};
    group.average(rank, tensors);
    if (values[0] != mine[0]) return 10;
    return values[1] == mine[1] ? 11 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(Trainer, ModesHaveTheirNames) {
  for (const Mode mode : {Mode::kHealthy, Mode::kHot, Mode::kNanData, Mode::kNoUpdate})
    EXPECT_EQ(parse_mode(name_of(mode)), mode);
  EXPECT_FALSE(parse_mode("Healthy").has_value());
}

}  // namespace
}  // namespace scalewatch::demo

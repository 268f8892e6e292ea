// Rules over tensor statistics: fire within the samples that they allow, stay silent, escalate, resolve.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/tensor_driver.h"

namespace scalewatch::domain {
namespace {

using Change = FindingEvent::Change;

// Three gradients of a thousand elements; returns the first id.
std::uint32_t add_gradients(TensorDriver& driver) {
  const std::uint32_t first = driver.add("a.weight", Role::kGradient);
  driver.add("b.weight", Role::kGradient);
  driver.add("c.weight", Role::kGradient);
  return first;
}

TensorDriver::Options static_scale(double scale) {
  TensorDriver::Options options;
  options.run.policy = "static";
  options.run.parameters = {{"init_scale", scale}};
  return options;
}

TEST(LowHeadroom, FiresAtTenOfTwentySamplesAndResolves) {
  TensorDriver driver;
  const auto act = driver.add("layer", Role::kActivation);
  for (int i = 0; i < 18; ++i) driver.attempt({{act, {.absmax = i % 2 == 0 ? 20'000.0 : 100.0}}});
  EXPECT_FALSE(driver.open("LowHeadroom"));
  driver.restart();
  driver.attempt({{act, {.absmax = 20'000}}});
  ASSERT_TRUE(driver.open("LowHeadroom"));
  const Finding& finding = *driver.find("LowHeadroom");
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.first_attempt, 1u);
  EXPECT_EQ(finding.first_step, 10);
  EXPECT_EQ(finding.blame->tensor, "layer");
  EXPECT_NEAR(finding.evidence[0].value, std::log2(65504.0 / 20'000), 1e-6);
  EXPECT_FALSE(finding.advice.empty());
  for (int i = 0; i < 20; ++i) driver.attempt({{act, {.absmax = 100}}});
  EXPECT_FALSE(driver.open("LowHeadroom"));
  EXPECT_EQ(driver.run.count("LowHeadroom", Change::kOpened), 1);
}

TEST(LowHeadroom, AttemptsWithoutARecordAreNoSamples) {
  TensorDriver driver;
  const auto act = driver.add("layer", Role::kActivation);
  for (int i = 0; i < 200; ++i) {
    if (i % 20 == 0) {
      driver.attempt({{act, {.absmax = 40'000}}});
    } else {
      driver.attempt({});
    }
    EXPECT_EQ(driver.open("LowHeadroom"), i >= 180) << i;
  }
  for (int i = 0; i < 1900; ++i) driver.attempt({});
  EXPECT_TRUE(driver.open("LowHeadroom"));
  for (int i = 0; i < 200; ++i) driver.attempt({});
  EXPECT_FALSE(driver.open("LowHeadroom"));  // nobody measures it any more
}

TEST(LowHeadroom, MasksAndScaledGradientsAreSilent) {
  TensorDriver driver;
  const auto act = driver.add("scores", Role::kActivation);
  const auto grad = add_gradients(driver);
  for (int i = 0; i < 60; ++i) driver.attempt({{act, {.absmax = 65504, .high = 10}}, {grad, {.absmax = 60'000}}});
  EXPECT_FALSE(driver.open("LowHeadroom"));
}

TEST(LowHeadroom, GradientsCountUnderAStaticScale) {
  TensorDriver driver(static_scale(1024));
  const auto grad = add_gradients(driver);
  for (int i = 0; i < 10; ++i) driver.attempt({{grad, {.absmax = 60'000}}});
  ASSERT_TRUE(driver.open("LowHeadroom"));
  EXPECT_EQ(driver.find("LowHeadroom")->subject, "default");
}

TEST(GradientUnderflow, SubnormalGradientsWithRoomAboveAreAWarning) {
  TensorDriver driver(static_scale(1));
  const auto grad = add_gradients(driver);
  const Shape healthy{.absmax = 100, .rms = 1};
  const Shape tiny{.absmax = 0x1p-16, .rms = 0x1p-18, .subnormal = 900};
  for (int i = 0; i < 19; ++i) driver.attempt({{grad, tiny}, {grad + 1, healthy}, {grad + 2, healthy}});
  EXPECT_FALSE(driver.open("GradientUnderflow"));
  driver.attempt({{grad, tiny}, {grad + 1, healthy}, {grad + 2, healthy}});
  ASSERT_TRUE(driver.open("GradientUnderflow"));
  EXPECT_EQ(driver.find("GradientUnderflow")->severity, Severity::kWarning);
  EXPECT_EQ(driver.find("GradientUnderflow")->blame->tensor, "a.weight");
  for (int i = 0; i < 20; ++i) driver.attempt({{grad, healthy}, {grad + 1, healthy}, {grad + 2, healthy}});
  EXPECT_FALSE(driver.open("GradientUnderflow"));
}

TEST(GradientUnderflow, EscalatesOnceThereIsRoomAbove) {
  TensorDriver driver(static_scale(1));
  const auto small = driver.add("small.weight", Role::kGradient, DType::kFp16, 50);  // of 1,050: half of the limit
  const auto large = driver.add("large.weight", Role::kGradient);
  const Shape tiny{.absmax = 0x1p-16, .rms = 0x1p-18, .numel = 50, .subnormal = 45};
  for (int i = 0; i < 25; ++i) driver.attempt({{small, tiny}, {large, {.absmax = 30000, .rms = 1}}});
  ASSERT_TRUE(driver.open("GradientUnderflow"));
  EXPECT_EQ(driver.find("GradientUnderflow")->severity, Severity::kInfo);
  // What had the least room is forgotten slowly.
  for (int i = 0; i < 100; ++i) driver.attempt({{small, tiny}, {large, {.absmax = 100, .rms = 1}}});
  EXPECT_EQ(driver.find("GradientUnderflow")->severity, Severity::kWarning);
  EXPECT_EQ(driver.run.count("GradientUnderflow", Change::kEscalated), 1);
}

// Under a scale the record counts what would be subnormal without it: that is nothing to complain of.
TEST(GradientUnderflow, SubnormalsOfUnscaledValuesAreNotUnderflow) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  const Shape scaled{.absmax = 0.5, .rms = 0.01, .subnormal = 1000, .flushed = 900};
  for (int i = 0; i < 60; ++i) driver.attempt({{grad, scaled}, {grad + 1, scaled}, {grad + 2, scaled}});
  EXPECT_FALSE(driver.open("GradientUnderflow"));
  // Nor for gradients in fp32 that were unscaled before they were measured: they were computed under the scale.
  TensorDriver wide;
  wide.unscaled = true;
  const auto first = wide.add("a.weight", Role::kGradient, DType::kFp32);
  for (int i = 0; i < 60; ++i) wide.attempt({{first, {.absmax = 1e-6, .rms = 1e-7, .subnormal = 1000, .flushed = 500}}});
  EXPECT_FALSE(wide.open("GradientUnderflow"));
}

TEST(GradientUnderflow, TheSumOfSquaresProvesItUnderAScale) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  for (int i = 0; i < 20; ++i) driver.attempt({{grad, {.absmax = 1, .rms = 0x1p-17, .subnormal = 1000}}, {grad + 1, {}}});
  EXPECT_TRUE(driver.open("GradientUnderflow"));
}

TEST(GradientUnderflow, TheHistogramTellsUnderAScale) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  // 60% at 2^-20, 40% at 1: the sum of squares could not tell.
  const Shape shape{.absmax = 1, .rms = 0.6, .subnormal = 1000, .exponents = {600, 0, 400}, .first_exponent = -20};
  for (int i = 0; i < 20; ++i) driver.attempt({{grad, shape}, {grad + 1, {}}});
  EXPECT_TRUE(driver.open("GradientUnderflow"));
}

TEST(GradientUnderflow, ZerosAboveTheTensorsOwnBaseline) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  const auto step = [&](std::uint64_t zero) { driver.attempt({{grad, {.zero = zero}}, {grad + 1, {}}, {grad + 2, {}}}); };
  for (int i = 0; i < 100; ++i) step(600);
  for (int i = 0; i < 60; ++i) step(780);  // less than half of the 400 that were not
  EXPECT_FALSE(driver.open("GradientUnderflow"));
  for (int i = 0; i < 19; ++i) step(900);
  EXPECT_FALSE(driver.open("GradientUnderflow"));
  step(900);
  EXPECT_TRUE(driver.open("GradientUnderflow"));
}

TEST(GradientUnderflow, AllGradientsZeroWithAFiniteLoss) {
  TensorDriver driver(static_scale(1024));
  const auto grad = add_gradients(driver);
  const Shape zero{.absmax = 0, .rms = 0, .zero = 1000};
  for (int i = 0; i < 19; ++i) driver.attempt({{grad, zero}, {grad + 1, zero}, {grad + 2, zero}});
  EXPECT_FALSE(driver.open("GradientUnderflow"));
  driver.restart();
  driver.attempt({{grad, zero}, {grad + 1, zero}, {grad + 2, zero}});
  ASSERT_TRUE(driver.open("GradientUnderflow"));
  EXPECT_EQ(driver.find("GradientUnderflow")->severity, Severity::kWarning);
  EXPECT_EQ(driver.find("GradientUnderflow")->first_attempt, 1u);
  ASSERT_FALSE(driver.find("GradientUnderflow")->advice.empty());
  EXPECT_NE(driver.find("GradientUnderflow")->advice[0].text.find("2^16"), std::string::npos);
  driver.attempt({{grad, {}}, {grad + 1, zero}, {grad + 2, zero}});
  EXPECT_FALSE(driver.open("GradientUnderflow"));
}

TEST(AllZeroGradient, OneTensorAtItsFiftiethSample) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  const Shape zero{.absmax = 0, .rms = 0, .zero = 1000};
  for (int i = 0; i < 49; ++i) driver.attempt({{grad, zero}, {grad + 1, {}}, {grad + 2, {}}});
  // Those in which nothing but zeros was looked at say nothing.
  for (int i = 0; i < 10; ++i) driver.attempt({{grad, zero}});
  EXPECT_FALSE(driver.open("AllZeroGradient"));
  driver.attempt({{grad, zero}, {grad + 1, {}}});
  ASSERT_TRUE(driver.open("AllZeroGradient"));
  EXPECT_EQ(driver.find("AllZeroGradient")->severity, Severity::kWarning);
  EXPECT_FALSE(driver.open("GradientUnderflow"));
  driver.attempt({{grad, {}}, {grad + 1, {}}});
  EXPECT_FALSE(driver.open("AllZeroGradient"));
}

TEST(AllZeroGradient, FrozenTensorsAndOptimizersThatDoNotStepAreSilent) {
  TensorDriver::Options options;
  options.run.optimizers = {{.name = "gen", .class_name = "Adam", .scaler = 0, .lr = {}, .fused = false},
                            {.name = "disc", .class_name = "Adam", .scaler = 0, .lr = {}, .fused = false}};
  TensorDriver driver(std::move(options));
  const auto grad = add_gradients(driver);
  driver.table[grad].optimizer = "";         // frozen
  driver.table[grad + 1].optimizer = "gen";  // steps at no attempt
  driver.table[grad + 2].optimizer = "disc";
  const Shape zero{.absmax = 0, .rms = 0, .zero = 1000};
  for (int i = 0; i < 120; ++i) {
    driver.attempt({{grad, zero}, {grad + 1, zero}, {grad + 2, {}}}, false,
                   [](AttemptDigest& digest) { digest.scalers[0].optimizers.erase(digest.scalers[0].optimizers.begin()); });
  }
  EXPECT_FALSE(driver.open("AllZeroGradient"));
}

TEST(DominantGradient, IsInfoAndNeedsAllGradients) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  for (int i = 0; i < 19; ++i) driver.attempt({{grad, {.rms = 1}}, {grad + 1, {}}, {grad + 2, {}}});
  for (int i = 0; i < 30; ++i) driver.attempt({{grad + 1, {}}});  // a look at one tensor
  EXPECT_FALSE(driver.open("DominantGradient"));
  driver.attempt({{grad, {.rms = 1}}, {grad + 1, {}}, {grad + 2, {}}});
  ASSERT_TRUE(driver.open("DominantGradient"));
  EXPECT_EQ(driver.find("DominantGradient")->severity, Severity::kInfo);
  EXPECT_EQ(driver.find("DominantGradient")->blame->tensor, "a.weight");
  driver.attempt({{grad, {}}, {grad + 1, {}}, {grad + 2, {}}});
  EXPECT_FALSE(driver.open("DominantGradient"));
}

TEST(RangeTooWide, BothEndsOfOneTensor) {
  TensorDriver driver;
  const auto act = driver.add("exp", Role::kActivation);
  const auto calm = driver.add("calm", Role::kActivation);
  const Shape wide{.absmax = 60'000, .zero = 100, .subnormal = 30};
  for (int i = 0; i < 10; ++i) driver.attempt({{act, wide}, {calm, {.absmax = 60'000, .subnormal = 5}}});
  ASSERT_TRUE(driver.open("RangeTooWide"));
  EXPECT_EQ(driver.find("RangeTooWide")->blame->tensor, "exp");
  EXPECT_EQ(driver.run.count("RangeTooWide", Change::kOpened), 1);
  for (int i = 0; i < 20; ++i) driver.attempt({{act, {.absmax = 100, .subnormal = 900}}, {calm, {}}});
  EXPECT_FALSE(driver.open("RangeTooWide"));
}

TEST(RangeTooWide, HistogramsOfScaledGradients) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  const Shape wide{.absmax = 50'000, .rms = 20'000, .subnormal = 1000, .exponents = {50, 0, 950}, .first_exponent = -16};
  for (int i = 0; i < 20; ++i) {
    if (i % 2 == 0) {
      driver.attempt({{grad, wide}, {grad + 1, {}}});
    } else {
      driver.attempt({});
    }
  }
  EXPECT_TRUE(driver.open("RangeTooWide"));
}

TEST(Fp8Saturation, FiveOfTwentySamples) {
  TensorDriver::Options options;
  options.target = DType::kE4m3fn;
  TensorDriver driver(std::move(options));
  const auto act = driver.add("cast", Role::kActivation, DType::kBf16);
  for (int i = 0; i < 16; ++i) driver.attempt({{act, {.absmax = 500, .over = i % 4 == 0 ? 7U : 0U}}});
  EXPECT_FALSE(driver.open("Fp8Saturation"));
  driver.attempt({{act, {.absmax = 500, .over = 3}}});
  EXPECT_TRUE(driver.open("Fp8Saturation"));
  for (int i = 0; i < 20; ++i) driver.attempt({{act, {.absmax = 400}}});
  EXPECT_FALSE(driver.open("Fp8Saturation"));
}

TEST(OptimizerStateUnderflow, ZerosWhereTheGradientIsNot) {
  TensorDriver driver;
  const auto grad = add_gradients(driver);
  const auto state = driver.add("a.weight.exp_avg_sq", Role::kOptimizerState);
  // Nothing was written at a skipped step.
  driver.attempt({{grad, {.zero = 10}}, {state, {.absmax = 0, .zero = 1000}}}, true);
  EXPECT_FALSE(driver.open("OptimizerStateUnderflow"));
  driver.attempt({{state, {.zero = 900}}});  // gradient not looked at
  driver.attempt({{grad, {.zero = 500}}, {state, {.zero = 400}}});
  EXPECT_FALSE(driver.open("OptimizerStateUnderflow"));
  driver.attempt({{grad, {.zero = 10}}, {state, {.zero = 200}}});
  ASSERT_TRUE(driver.open("OptimizerStateUnderflow"));
  EXPECT_EQ(driver.find("OptimizerStateUnderflow")->severity, Severity::kWarning);
  EXPECT_EQ(driver.find("OptimizerStateUnderflow")->blame->tensor, "a.weight.exp_avg_sq");
  for (int i = 0; i < 20; ++i) driver.attempt({{grad, {.zero = 10}}, {state, {.zero = 10}}});
  EXPECT_FALSE(driver.open("OptimizerStateUnderflow"));
}

TEST(OptimizerStateUnderflow, EpsThatItsFormatDoesNotHold) {
  TensorDriver::Options options;
  options.state_dtypes = {DType::kFp16};
  options.eps = 1e-8;
  TensorDriver half(options);
  half.attempt({});
  ASSERT_TRUE(half.open("OptimizerStateUnderflow"));
  EXPECT_EQ(half.find("OptimizerStateUnderflow")->first_attempt, 1u);
  EXPECT_EQ(half.find("OptimizerStateUnderflow")->advice[0].id, "optimizer_state");
  options.eps = 1e-4;
  TensorDriver larger(options);
  larger.attempt({});
  options.state_dtypes = {DType::kFp32};
  options.eps = 1e-8;
  TensorDriver wide(options);
  wide.attempt({});
  EXPECT_FALSE(larger.open("OptimizerStateUnderflow") || wide.open("OptimizerStateUnderflow"));
}

struct Weights {
  DType dtype;
  std::vector<DType> state;
  double lr;
  bool lost;
};

TEST(LostUpdates, NarrowWeightsWithoutACopy) {
  const Weights cases[] = {
      {DType::kFp16, {DType::kFp16}, 2e-4, true},                 // 2^-12 of 1 is 2.4e-4
      {DType::kFp16, {DType::kFp16}, 3e-4, false},                //
      {DType::kBf16, {DType::kBf16}, 1.9e-3, true},               // 2^-9 of 1 is 1.95e-3
      {DType::kBf16, {DType::kBf16}, 2.1e-3, false},              //
      {DType::kFp32, {DType::kFp16}, 1e-6, false},                //
      {DType::kFp16, {DType::kFp16, DType::kFp32}, 1e-6, false},  // may be the master copy
  };
  for (const Weights& one : cases) {
    TensorDriver::Options options;
    options.run.optimizers[0].lr = one.lr;
    options.state_dtypes = one.state;
    TensorDriver driver(std::move(options));
    const auto weight = driver.add("a.weight", Role::kParameter, one.dtype);
    for (int i = 0; i < 2; ++i) driver.attempt({{weight, {.rms = 1}}});
    EXPECT_FALSE(driver.open("LostUpdates"));
    driver.attempt({{weight, {.rms = 1}}});
    EXPECT_EQ(driver.open("LostUpdates"), one.lost) << one.lr;
    if (one.lost) {
      EXPECT_EQ(driver.find("LostUpdates")->severity, Severity::kWarning);
    }
  }
}

TEST(LostUpdates, WarmUpIsSilentAndTheEndOfAScheduleIsInfo) {
  TensorDriver driver;
  const auto weight = driver.add("a.weight", Role::kParameter);
  driver.add("a.weight.exp_avg", Role::kOptimizerState);
  const auto at = [&](double lr) {
    driver.attempt({{weight, {.rms = 0.02}}}, false, [&](AttemptDigest& digest) { digest.lr = lr; });
  };
  for (int i = 1; i <= 1000; ++i) at(1e-3 * i / 1000);  // the first are under 2^-12 of 0.02
  for (int i = 0; i < 48; ++i) at(1e-3 * std::pow(0.9, i));
  EXPECT_EQ(driver.find("LostUpdates"), nullptr);
  for (int i = 48; i < 60; ++i) at(1e-3 * std::pow(0.9, i));
  ASSERT_TRUE(driver.open("LostUpdates"));
  EXPECT_EQ(driver.find("LostUpdates")->severity, Severity::kInfo);
}

TEST(Misuse, HalfWeightsUnderGradScalerAreToldFromTheTable) {
  const auto found = [](const char* policy, DType weight, std::vector<DType> state) {
    TensorDriver::Options options;
    options.run.policy = policy;
    options.state_dtypes = std::move(state);
    TensorDriver driver(std::move(options));
    const auto first = driver.add("a.weight", Role::kParameter, weight);
    driver.add("b.weight", Role::kParameter, weight);
    driver.attempt({{first, {}}});
    const Finding* finding = driver.find("Misuse");
    return finding == nullptr ? std::string() : finding->subject + ": " + finding->summary;
  };
  EXPECT_EQ(found("pytorch", DType::kFp16, {}), "fp16_parameters: trainable parameters are fp16: a.weight and 1 more");
  EXPECT_EQ(found("pytorch", DType::kFp32, {}), "");
  EXPECT_EQ(found("pytorch", DType::kBf16, {}), "");
  EXPECT_EQ(found("pytorch", DType::kFp16, {DType::kFp32}), "") << "may be the master copy";
  EXPECT_EQ(found("megatron", DType::kFp16, {}), "") << "keeps master weights";
}

TEST(NonFiniteActivation, OverflowIsCriticalAtOnceAndResolvesOnceLookedAt) {
  TensorDriver driver;
  const auto act = driver.add("wo", Role::kActivation);
  driver.attempt({{act, {}}});
  driver.attempt({{act, {.pos_inf = 2}}});
  ASSERT_TRUE(driver.open("NonFiniteActivation"));
  const Finding& finding = *driver.find("NonFiniteActivation");
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_EQ(finding.blame->tensor, "wo");
  EXPECT_EQ(finding.blame->where, "forward");
  EXPECT_GE(finding.advice.size(), 2u);
  for (int i = 0; i < 200; ++i) driver.attempt({});
  EXPECT_TRUE(driver.open("NonFiniteActivation"));
  for (int i = 0; i < 50; ++i) driver.attempt({{act, {}}});
  EXPECT_FALSE(driver.open("NonFiniteActivation"));
}

TEST(NonFiniteActivation, MinusInfIsAMaskIfItWasThereEarly) {
  TensorDriver driver;
  const auto mask = driver.add("scores", Role::kActivation);
  const auto late = driver.add("late", Role::kActivation);
  const auto follower = driver.add("follower", Role::kActivation);
  for (int i = 0; i < 20; ++i) driver.attempt({{mask, {.neg_inf = i == 12 ? 9U : 0U}}, {late, {}}});
  driver.restart();
  for (int i = 0; i < 20; ++i) driver.attempt({{mask, {.neg_inf = 9}}, {late, {}}, {follower, {.neg_inf = 4}}});
  EXPECT_EQ(driver.find("NonFiniteActivation"), nullptr);
  driver.attempt({{late, {.neg_inf = 1}}});
  ASSERT_TRUE(driver.open("NonFiniteActivation"));
  EXPECT_EQ(driver.find("NonFiniteActivation")->blame->tensor, "late");
}

// Ranks 1 to 3 send their non-finite tensors only; rank 0 measures all.
TEST(NonFiniteActivation, MinusInfOnAFollowerIsNewWhereTheLeaderHeldNone) {
  TensorDriver::Options options;
  options.run.ranks = 4;
  TensorDriver driver(options);
  const auto scores = driver.add("scores", Role::kActivation);
  const auto stage = driver.add("stage", Role::kActivation);  // which only followers have
  const auto own = driver.add("own", Role::kActivation);      // a mask of theirs, where the leader has none
  const auto late = driver.add("late", Role::kActivation);
  const auto attempt = [&](std::vector<std::pair<Rank, std::uint32_t>> bad) {
    const bool here = !bad.empty() && bad.front().first == 0;
    driver.attempt({{scores, {.neg_inf = 9}}, {own, {}}, {late, {.neg_inf = here ? 1U : 0U}}}, false,
                   [&](AttemptDigest& digest) {
                     if (digest.rank > 0) add_bad(digest, scores, 0, 0, 9);
                     if (digest.rank > 1) add_bad(digest, own, 0, 0, 5);
                     for (const auto& [rank, id] : bad) {
                       if (rank == digest.rank) add_bad(digest, id, 0, 0, 1);
                     }
                   });
  };
  for (int i = 0; i < 30; ++i) attempt({});
  driver.restart();
  for (int i = 30; i < 59; ++i) attempt({});
  attempt({{3, stage}});
  EXPECT_EQ(driver.find("NonFiniteActivation"), nullptr);
  attempt({{1, late}});
  ASSERT_TRUE(driver.open("NonFiniteActivation"));
  const Finding& finding = *driver.find("NonFiniteActivation");
  EXPECT_EQ(finding.severity, Severity::kCritical);
  ASSERT_TRUE(finding.blame);
  EXPECT_EQ(finding.blame->tensor, "late");
  EXPECT_EQ(finding.blame->where, "forward");
  EXPECT_EQ(finding.blame->inf, 1);
  EXPECT_EQ(finding.blame->rank_of_origin, 1u);
  for (int i = 0; i < 60; ++i) attempt({});
  EXPECT_FALSE(driver.open("NonFiniteActivation"));
  attempt({{2, late}, {3, late}});
  ASSERT_TRUE(driver.open("NonFiniteActivation"));
  EXPECT_EQ(driver.find("NonFiniteActivation")->blame->ranks, (std::vector<Rank>{2, 3}));
  attempt({{0, late}, {1, late}});  // the leader knows by itself that it is new: the other has it no less
  EXPECT_EQ(driver.find("NonFiniteActivation")->blame->ranks, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(driver.find("NonFiniteActivation")->blame->rank_of_origin, std::nullopt);
}

// Nothing was applied yet, so that no mask can have been learnt.
TEST(NonFiniteActivation, MinusInfOnAFollowerIsAMaskWhileNothingWasApplied) {
  TensorDriver::Options options;
  options.run.ranks = 2;
  TensorDriver driver(options);
  const auto own = driver.add("own", Role::kActivation);
  const auto mask = [&](AttemptDigest& digest) {
    if (digest.rank > 0) add_bad(digest, own, 0, 0, 5);
  };
  for (int i = 0; i < 25; ++i) driver.attempt({{own, {}}}, true, mask);
  for (int i = 0; i < 40; ++i) driver.attempt({{own, {}}}, false, mask);
  EXPECT_EQ(driver.find("NonFiniteActivation"), nullptr);
}

TEST(NonFiniteActivation, ALogsMinusInfIsAsItIsPrinted) {
  Driver driver;
  RankJoined joined;
  joined.from_log = true;
  joined.now = driver.now;
  driver.send(SegmentOpened{2, driver.now});
  driver.send(joined);
  driver.attempts(30, false, [](AttemptDigest& digest) { digest.unmasked = {kAct1}; });
  driver.attempt(false, [](AttemptDigest& digest) { add_bad(digest, kAct1, 0, 0, 1); });
  EXPECT_EQ(driver.find("NonFiniteActivation"), nullptr);
}

TEST(TensorRules, SentencesSpeakOfOneOrMany) {
  for (const int tensors : {1, 3}) {
    TensorDriver driver;
    std::map<std::uint32_t, Shape> shapes;
    for (int i = 0; i < tensors; ++i) shapes[driver.add("act" + std::to_string(i), Role::kActivation)] = {.absmax = 40000};
    for (int i = 0; i < 20; ++i) driver.attempt(shapes);
    ASSERT_TRUE(driver.open("LowHeadroom"));
    EXPECT_EQ(driver.find("LowHeadroom")->summary,
              tensors == 1 ? "the activation act0 has 0.7 octaves of headroom in fp16 (limit 2)"
                           : "the activation act0 and 2 more have as little as 0.7 octaves of headroom in fp16 (limit 2)");
  }
}

TEST(TensorRules, FourHundredTensorsAreOneFinding) {
  TensorDriver driver;
  std::map<std::uint32_t, Shape> shapes;
  for (int i = 0; i < 400; ++i) {
    const auto id = driver.add("layers." + std::to_string(i), Role::kActivation);
    shapes[id].absmax = i == 250 ? 65'000 : 40'000;
  }
  for (int i = 0; i < 30; ++i) driver.attempt(shapes);
  EXPECT_EQ(driver.run.count("LowHeadroom", Change::kOpened), 1);
  EXPECT_NE(driver.find("LowHeadroom")->summary.find("layers.250 and 399 more"), std::string::npos)
      << driver.find("LowHeadroom")->summary;
}

TEST(TensorRules, ARankThatRestartsTakesItsFaultsAlong) {
  TensorDriver driver;
  const auto act = driver.add("layer", Role::kActivation);
  for (int i = 0; i < 12; ++i) driver.attempt({{act, {.absmax = 40'000}}});
  EXPECT_TRUE(driver.open("LowHeadroom"));
  driver.run.join(0);
  driver.rank = RankState();
  driver.attempt({{act, {.absmax = 100}}});
  EXPECT_FALSE(driver.open("LowHeadroom"));
}

}  // namespace
}  // namespace scalewatch::domain

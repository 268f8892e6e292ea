#include "server/domain/policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace scalewatch::domain {
namespace {

TEST(PyTorchPolicy, GrowsAtTheIntervalAndStartsCountingAnew) {
  auto policy = make_policy("pytorch", {{"init_scale", 4}, {"growth_interval", 3}});
  EXPECT_EQ(policy->update(false), 4);
  EXPECT_EQ(policy->update(false), 4);
  EXPECT_EQ(policy->update(false), 8);
  EXPECT_EQ(policy->update(false), 8);
  EXPECT_EQ(policy->update(true), 4);  // halves, and the one clean attempt no longer counts
  EXPECT_EQ(policy->update(false), 4);
  EXPECT_EQ(policy->update(false), 4);
  EXPECT_EQ(policy->update(false), 8);
}

TEST(PyTorchPolicy, DefaultsAreTorchs) {
  auto policy = make_policy("pytorch", {});
  EXPECT_EQ(policy->init_scale(), 65536);
  EXPECT_EQ(policy->hysteresis(), 1);
  EXPECT_FALSE(policy->floor().has_value());
  for (int i = 0; i < 1999; ++i) EXPECT_EQ(policy->update(false), 65536);
  EXPECT_EQ(policy->update(false), 131072);
}

TEST(PyTorchPolicy, NeverGrowsToInfinityAndTheTrackerIsResetAllTheSame) {
  auto policy = make_policy("pytorch", {{"init_scale", 0x1p126}, {"growth_interval", 2}});
  EXPECT_EQ(policy->update(false), 0x1p126);
  EXPECT_EQ(policy->update(false), 0x1p127);
  EXPECT_EQ(policy->update(false), 0x1p127);
  EXPECT_EQ(policy->update(false), 0x1p127);  // 2^128 is Inf in fp32
  EXPECT_EQ(policy->update(true), 0x1p126);
  EXPECT_EQ(policy->update(false), 0x1p126);
  EXPECT_EQ(policy->update(false), 0x1p127);  // two clean attempts, not one
}

TEST(PyTorchPolicy, HasNoFloor) {
  auto policy = make_policy("pytorch", {});
  for (int i = 0; i < 143; ++i) policy->update(true);
  EXPECT_TRUE(std::isfinite(1.0F / static_cast<float>(policy->scale())));
  EXPECT_TRUE(std::isinf(1.0F / static_cast<float>(policy->update(true))));  // the 144th
  for (int i = 144; i < 165; ++i) policy->update(true);
  EXPECT_GT(policy->scale(), 0);
  EXPECT_EQ(policy->update(true), 0);  // the 166th
}

TEST(PyTorchPolicy, RoundsToFloatOnce) {
  auto policy = make_policy("pytorch", {{"init_scale", 3}, {"backoff_factor", 0.1}});
  EXPECT_EQ(policy->update(true), static_cast<double>(static_cast<float>(3 * 0.1)));
}

TEST(OtherPolicies, StayWhereTheyAre) {
  auto fixed = make_policy("static", {{"init_scale", 128}});
  EXPECT_EQ(fixed->update(true), 128);
  EXPECT_FALSE(fixed->dynamic());
  EXPECT_TRUE(fixed->guards());
  EXPECT_EQ(fixed->floor(), 128);
  auto none = make_policy("none", {});
  EXPECT_EQ(none->update(true), 1);
  EXPECT_FALSE(none->guards());
}

TEST(ApexAmp, GrowsToItsCeilingAndHasNoFloor) {
  auto policy = make_policy("apex_amp", {{"init_scale", 0x1p23}, {"scale_window", 2}});
  EXPECT_EQ(policy->update(false), 0x1p23);
  EXPECT_EQ(policy->update(false), 0x1p24);
  EXPECT_EQ(policy->update(true), 0x1p23);
  for (int i = 0; i < 10; ++i) policy->update(false);
  EXPECT_EQ(policy->scale(), 0x1p24);
  for (int i = 0; i < 30; ++i) policy->update(true);
  EXPECT_EQ(policy->scale(), 0x1p-6);
}

TEST(ApexFp16Optimizer, StopsAtOneAndGrowsWithEveryWindowOfCleanAttempts) {
  auto policy = make_policy("apex_fp16_optimizer", {{"init_scale", 4}, {"scale_window", 3}});
  EXPECT_EQ(policy->update(false), 4);
  EXPECT_EQ(policy->update(false), 4);
  EXPECT_EQ(policy->update(false), 8);
  for (int i = 0; i < 9; ++i) policy->update(true);
  EXPECT_EQ(policy->scale(), 1);
  EXPECT_TRUE(policy->at_floor());
  EXPECT_EQ(policy->fatal(), "");  // clamped, for ever
}

TEST(DeepSpeedFused, GrowsFirstOnTheAttemptAfterTheWindow) {
  for (const char* name : {"deepspeed_fused", "deepspeed_unfused"}) {
    auto policy = make_policy(name, {{"init_scale", 4}, {"scale_window", 3}});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(policy->update(false), 4) << name;
    EXPECT_EQ(policy->update(false), 8) << name;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(policy->update(false), 8) << name;
    EXPECT_EQ(policy->update(false), 16) << name;  // and then with every window
    for (int i = 0; i < 9; ++i) policy->update(true);
    EXPECT_EQ(policy->scale(), policy->floor()) << name;
  }
}

TEST(DeepSpeed, SaysThatTheNextOverflowIsItsLast) {
  auto policy = make_policy("deepspeed", {{"init_scale", 2}});
  EXPECT_EQ(policy->fatal(), "");
  policy->update(true);  // hysteresis
  policy->update(true);
  EXPECT_EQ(policy->scale(), 1);
  EXPECT_NE(policy->fatal().find("already at minimum"), std::string::npos);
  policy->update(false);
  EXPECT_NE(policy->fatal(), "");
  policy->update(true);
  EXPECT_TRUE(policy->ended());
  policy->update(false);
  EXPECT_EQ(policy->state(), policy->peek(true));  // nothing changes any more
  policy->resync({.scale = 8, .growth_tracker = {}, .hysteresis = {}});
  EXPECT_FALSE(policy->ended());  // somebody went on with it
  EXPECT_EQ(policy->update(true), 4);
  EXPECT_EQ(make_policy("deepspeed", {{"init_scale", 1}, {"delayed_shift", 1}, {"raise_error_at_min_scale", 0}})->fatal(), "");
}

TEST(Optax, AcceptsWhatIsBadForTooLong) {
  auto policy = make_policy("optax", {{"max_consecutive_errors", 2}});
  EXPECT_TRUE(policy->guards());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(policy->skips());
    policy->update(true);
  }
  EXPECT_FALSE(policy->skips());
  policy->update(false);
  EXPECT_TRUE(policy->skips());
}

struct Default {
  const char* name;
  double init;
  std::optional<double> floor;
  std::optional<double> ceiling;
  int hysteresis;
  std::optional<std::int64_t> interval;
};

TEST(Policies, HaveTheDefaultsOfTheirFrameworks) {
  constexpr auto kNone = std::nullopt;
  constexpr double kTiny = std::numeric_limits<float>::min();
  constexpr double kMax = std::numeric_limits<float>::max();
  const std::vector<Default> defaults{{"pytorch", 0x1p16, kNone, kNone, 1, 2000},
                                      {"apex_amp", 0x1p16, kNone, 0x1p24, 1, 2000},
                                      {"apex_fp16_optimizer", 0x1p32, 1, kNone, 1, 1000},
                                      {"megatron", 0x1p32, 1, kNone, 2, 1000},
                                      {"deepspeed", 0x1p16, 1, kNone, 2, 1000},
                                      {"deepspeed_fused", 0x1p32, 1, kNone, 1, 1000},
                                      {"deepspeed_unfused", 0x1p16, 0.25, kNone, 1, 1000},
                                      {"fairseq", 0x1p15, 1e-4, kNone, 1, 2000},
                                      {"colossalai", 0x1p16, kNone, kNone, 2, 1000},
                                      {"paddle", 0x1p16, kNone, kNone, 1, 2000},
                                      {"paddle_static", 0x1p16, 1, kNone, 1, 2000},
                                      {"mindspore", 0x1p24, 1, kNone, 1, 2000},
                                      {"keras2", 0x1p15, 1, kMax, 1, 2000},
                                      {"keras3", 0x1p15, kNone, kNone, 1, 2000},
                                      {"flax", 0x1p16, kTiny, kMax, 1, 2000},
                                      {"jmp", 0x1p15, 1, kMax, 1, 2000},
                                      {"optax", 1, kNone, kNone, 1, kNone},
                                      {"static", 1, 1, 1, 1, kNone},
                                      {"none", 1, kNone, kNone, 1, kNone}};
  EXPECT_EQ(policy_names().size(), defaults.size());
  for (const Default& expected : defaults) {
    SCOPED_TRACE(expected.name);
    const auto policy = make_policy(expected.name, {});
    ASSERT_NE(policy, nullptr);
    EXPECT_EQ(policy->init_scale(), expected.init);
    EXPECT_EQ(policy->floor(), expected.floor);
    EXPECT_EQ(policy->ceiling(), expected.ceiling);
    EXPECT_EQ(policy->hysteresis(), expected.hysteresis);
    EXPECT_EQ(policy->growth_interval(), expected.interval);
  }
}

TEST(Policies, RefuseUnknownNamesAndSenselessParameters) {
  EXPECT_EQ(make_policy("megatronn", {}), nullptr);
  EXPECT_FALSE(check_parameters("megatronn", {}).has_value());
  EXPECT_EQ(make_policy("pytorch", {{"init_scale", -1}})->init_scale(), 65536);
  EXPECT_EQ(make_policy("pytorch", {{"init_scale", NAN}})->init_scale(), 65536);
  const auto check = check_parameters("pytorch", {{"growth_interval", 2.5}, {"hysteresis", 2}, {"init_scale", 8}});
  ASSERT_TRUE(check.has_value());
  EXPECT_EQ(check->unknown, std::vector<std::string>{"hysteresis"});
  EXPECT_EQ(check->refused, std::vector<std::string>{"growth_interval"});
}

// Parameters under which much happens within few attempts.
PolicyParameters lively(std::mt19937_64& random) {
  const double interval = 2.0 + static_cast<double>(random() % 12);
  const double hysteresis = 1.0 + static_cast<double>(random() % 3);
  return {{"init_scale", std::ldexp(1.0, static_cast<int>(random() % 20))},
          {"growth_interval", interval},
          {"scale_window", interval},
          {"incr_every_n_steps", interval},
          {"dynamic_growth_steps", interval},
          {"period", interval},
          {"hysteresis", hysteresis},
          {"decr_every_n_nan_or_inf", hysteresis},
          {"consecutive_hysteresis", static_cast<double>(random() % 2)},
          {"tolerance", random() % 2 == 0 ? 0.0 : 0.2},
          {"max_consecutive_errors", hysteresis}};
}

TEST(PolicyProperties, AStateIsAllThereIsToRemember) {
  std::mt19937_64 random(7);
  for (const auto name : policy_names()) {
    for (int round = 0; round < 30; ++round) {
      const auto parameters = lively(random);
      auto policy = make_policy(name, parameters);
      const unsigned badness = 5 + random() % 60;
      for (int i = 0; i < 120 && !policy->ended(); ++i) {
        const bool found_inf = random() % 100 < badness;
        auto loaded = make_policy(name, parameters);
        loaded->restore(policy->state());
        EXPECT_EQ(loaded->skips(), policy->skips());
        EXPECT_EQ(loaded->fatal(), policy->fatal());
        const PolicyState ahead = policy->peek(found_inf);
        const bool raises = found_inf && !policy->fatal().empty();
        EXPECT_EQ(loaded->update(found_inf), policy->update(found_inf));
        EXPECT_EQ(loaded->state(), policy->state());
        EXPECT_EQ(ahead, policy->state());
        EXPECT_EQ(policy->ended(), raises);
        ASSERT_FALSE(HasFailure()) << name << ", round " << round << ", attempt " << i;
      }
    }
  }
}

TEST(PolicyProperties, TheScaleStaysBetweenFloorAndCeiling) {
  std::mt19937_64 random(11);
  for (const auto name : policy_names()) {
    for (const unsigned badness : {1U, 30U, 60U, 95U}) {
      auto policy = make_policy(name, lively(random));
      for (int i = 0; i < 2000 && !policy->ended(); ++i) {
        policy->update(random() % 100 < badness);
        EXPECT_GE(policy->scale(), policy->floor().value_or(0));
        EXPECT_LE(policy->scale(), policy->ceiling().value_or(HUGE_VAL));
        ASSERT_FALSE(HasFailure()) << name << ", attempt " << i;
      }
    }
  }
}

// Whoever joins late and sees scale, growth tracker and hysteresis follows the scaler from there.
TEST(PolicyProperties, ResyncFollowsAScalerFromWhatItReports) {
  std::mt19937_64 random(13);
  for (const auto name : policy_names()) {
    const auto parameters = lively(random);
    auto policy = make_policy(name, parameters);
    for (int i = 0; i < 57 && !policy->ended(); ++i) policy->update(random() % 100 < 25);
    auto late = make_policy(name, parameters);
    late->resync({policy->scale(), policy->growth_tracker(), policy->hysteresis_tracker()});
    // What fairseq, MindSpore and optax count besides, nobody reports: it is as if it began here.
    if (policy->state().overflows != 0 || policy->state().attempts != 0) continue;
    for (int i = 0; i < 200 && !policy->ended(); ++i) {
      const bool found_inf = random() % 100 < 25;
      ASSERT_EQ(late->update(found_inf), policy->update(found_inf)) << name << ", attempt " << i;
    }
  }
}

TEST(PolicyProperties, SkipsToBackoffAreThoseThatItTakes) {
  std::mt19937_64 random(17);
  for (const auto name : policy_names()) {
    auto parameters = lively(random);
    parameters["tolerance"] = 0;
    auto policy = make_policy(name, parameters);
    if (!policy->dynamic()) continue;
    for (int i = 0; i < 300 && !policy->ended(); ++i) {
      if (!policy->at_floor() && policy->scale() > 0x1p-100 && policy->scale() < 0x1p100) {
        auto ahead = make_policy(name, parameters);
        ahead->restore(policy->state());
        int skips = 0;
        while (ahead->scale() == policy->scale() && skips < 10) ++skips, ahead->update(true);
        ASSERT_EQ(skips, policy->skips_to_backoff()) << name << ", attempt " << i;
      }
      policy->update(random() % 100 < 15);
    }
  }
}

}  // namespace
}  // namespace scalewatch::domain

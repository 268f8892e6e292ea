// LossScaler against the semantics of torch.amp.GradScaler.
#include "scalewatch/loss_scaler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/unit/client/fake_server.h"

namespace scalewatch::client_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

LossScalerOptions fast(std::uint64_t interval = 2) {
  LossScalerOptions options;
  options.init_scale = 1024;
  options.growth_interval = interval;
  return options;
}

// One iteration with one gradient; true when the step was applied.
bool iterate(LossScaler& scaler, std::uint32_t optimizer, float gradient) {
  float value = scaler.scale(gradient);
  const bool applied = scaler.step(optimizer, {{&value, 1}}, [] {});
  scaler.update();
  return applied;
}

template <class Call>
void expect_refused(const Call& call, const std::string& text) {
  try {
    call();
    FAIL() << "not refused: " << text;
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(LossScaler, DefaultsAreThoseOfPyTorch) {
  LossScaler scaler;
  const auto state = scaler.state();
  EXPECT_EQ(state.scale, 65536.0F);
  EXPECT_EQ(state.growth_factor, 2.0);
  EXPECT_EQ(state.backoff_factor, 0.5);
  EXPECT_EQ(state.growth_interval, 2000U);
  EXPECT_EQ(state.growth_tracker, 0U);
}

TEST(LossScaler, GrowsAfterTheIntervalAndBacksOffAtOnce) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  EXPECT_TRUE(iterate(scaler, optimizer, 1));
  EXPECT_EQ(scaler.growth_tracker(), 1U);
  EXPECT_TRUE(iterate(scaler, optimizer, 1));
  EXPECT_EQ(scaler.get_scale(), 2048.0F);
  EXPECT_EQ(scaler.growth_tracker(), 0U);
  EXPECT_TRUE(iterate(scaler, optimizer, 1));
  EXPECT_FALSE(iterate(scaler, optimizer, kInf));
  EXPECT_EQ(scaler.get_scale(), 1024.0F);
  EXPECT_EQ(scaler.growth_tracker(), 0U);  // the clean update before does not count any more
  EXPECT_FALSE(iterate(scaler, optimizer, std::nanf("")));
  EXPECT_EQ(scaler.get_scale(), 512.0F);
}

TEST(LossScaler, TrackerRestartsWhenGrowthWouldOverflow) {
  LossScalerOptions options = fast(1);
  options.init_scale = std::ldexp(1.0F, 127);
  LossScaler scaler(options);
  const auto optimizer = scaler.add_optimizer();
  iterate(scaler, optimizer, 0);
  EXPECT_EQ(scaler.get_scale(), std::ldexp(1.0F, 127));
  EXPECT_EQ(scaler.growth_tracker(), 0U);
}

TEST(LossScaler, ChecksBeforeItUnscales) {
  // Under a scale this small the inverse is Inf: finite gradients pass the check and are ruined by unscaling.
  LossScaler scaler;
  const auto optimizer = scaler.add_optimizer();
  LossScalerState state = scaler.state();
  state.scale = std::ldexp(1.0F, -130);
  scaler.load_state(state);
  scaler.scale(1.0F);
  float gradient = 1;
  EXPECT_TRUE(scaler.unscale(optimizer, {{&gradient, 1}}));
  EXPECT_TRUE(std::isinf(gradient));
  EXPECT_TRUE(scaler.step(optimizer, [] {}));
}

TEST(LossScaler, VanishesWithoutAFloor) {
  LossScaler scaler;
  const auto optimizer = scaler.add_optimizer();
  int halvings = 0;
  while (scaler.get_scale() > 0 && halvings < 1000) {
    iterate(scaler, optimizer, std::nanf(""));
    ++halvings;
  }
  EXPECT_EQ(halvings, 166);
}

TEST(LossScaler, UnscalesEveryKindOfGradient) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  EXPECT_EQ(scaler.scale(2.0), 2048.0);
  std::vector<float> a{1024, -512};
  std::vector<double> b{2048};
  std::vector<_Float16> c{static_cast<_Float16>(1024)};
  const std::vector<_Float16> source{static_cast<_Float16>(512)};
  std::vector<float> master(1);
  EXPECT_TRUE(scaler.unscale(
      optimizer, {{a.data(), a.size()}, {b.data(), b.size()}, {c.data(), c.size()}, {source.data(), master.data(), 1}}));
  EXPECT_EQ(a, (std::vector<float>{1, -0.5F}));
  EXPECT_EQ(b[0], 2.0);
  EXPECT_EQ(static_cast<float>(c[0]), 1.0F);
  EXPECT_EQ(master[0], 0.5F);
}

// A bfloat16 of a user's own: explicit conversions only.
struct Bf16 {
  Bf16() = default;
  explicit Bf16(float value) : half(value) {}
  explicit operator float() const { return half; }
  float half = 0;
};

TEST(LossScaler, ScaledHalvesAreFloats) {
  LossScaler scaler;
  static_assert(std::is_same_v<decltype(scaler.scale(_Float16{})), float>);
  static_assert(std::is_same_v<decltype(scaler.scale(Bf16{})), float>);
  static_assert(std::is_same_v<decltype(scaler.scale(1)), float>);
  static_assert(std::is_same_v<decltype(scaler.scale(1.0)), double>);
  EXPECT_EQ(scaler.scale(static_cast<_Float16>(0.5)), 32768.0F);
  EXPECT_EQ(scaler.scale(static_cast<_Float16>(3)), 196608.0F);  // fp16 ends at 65504
  EXPECT_EQ(scaler.scale(Bf16(3)), 196608.0F);
  Bf16 gradient(65536);
  EXPECT_TRUE(scaler.unscale(scaler.add_optimizer(), {{&gradient, 1}}));
  EXPECT_EQ(gradient.half, 1.0F);
}

TEST(LossScaler, AccumulatesUnderOneScale) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  float gradient = 0;
  for (int micro = 0; micro < 4; ++micro) gradient += scaler.scale(0.25F);
  EXPECT_TRUE(scaler.unscale(optimizer, {{&gradient, 1}}));
  EXPECT_EQ(gradient, 1.0F);
  EXPECT_TRUE(scaler.step(optimizer, [] {}));
  scaler.update();
  EXPECT_EQ(scaler.growth_tracker(), 1U);  // one attempt, not four
}

TEST(LossScaler, AFailedReductionNeverUnscalesTwice) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  scaler.set_reduce([](std::uint32_t, double) -> double { throw std::runtime_error("a rank is gone"); });
  float gradient = scaler.scale(2.0F);
  EXPECT_THROW(scaler.step(optimizer, {{&gradient, 1}}, [] { FAIL() << "undecided"; }), std::runtime_error);
  EXPECT_EQ(gradient, 2.0F);
  expect_refused([&] { scaler.step(optimizer, {{&gradient, 1}}, [] {}); }, "No inf checks");
  EXPECT_EQ(gradient, 2.0F);
}

TEST(LossScaler, AnOptimizerThatThrowsCanBeSteppedAgain) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  float gradient = scaler.scale(2.0F);
  EXPECT_THROW(scaler.step(optimizer, {{&gradient, 1}}, [] { throw std::runtime_error("no memory"); }), std::runtime_error);
  EXPECT_TRUE(scaler.step(optimizer, {{&gradient, 1}}, [] {}));
  EXPECT_EQ(gradient, 2.0F);
}

TEST(LossScaler, EachOptimizerSkipsAloneAndOneBacksOffForAll) {
  LossScaler scaler(fast());
  const auto first = scaler.add_optimizer();
  const auto second = scaler.add_optimizer();
  float good = scaler.scale(1.0F);
  float bad = kInf;
  bool ran = false;
  EXPECT_TRUE(scaler.step(first, {{&good, 1}}, [&] { ran = true; }));
  EXPECT_TRUE(ran);
  EXPECT_FALSE(scaler.step(second, {{&bad, 1}}, [] { FAIL() << "must be skipped"; }));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 512.0F);
}

TEST(LossScaler, FoundInfIsReducedOverRanks) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  scaler.set_reduce([](std::uint32_t, double local) { return local + 1; });  // another rank found one
  EXPECT_FALSE(iterate(scaler, optimizer, 1));
  EXPECT_EQ(scaler.get_scale(), 512.0F);
}

TEST(LossScaler, UpdateByHandLeavesTheTracker) {
  LossScaler scaler(fast(100));
  const auto optimizer = scaler.add_optimizer();
  iterate(scaler, optimizer, 1);
  scaler.update(32.0F);
  EXPECT_EQ(scaler.get_scale(), 32.0F);
  EXPECT_EQ(scaler.growth_tracker(), 1U);
  expect_refused([&] { scaler.update(0.0F); }, "above 0");
  expect_refused([&] { scaler.update(kInf); }, "finite");
}

TEST(LossScaler, RefusesWrongOrder) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  float gradient = 1;
  expect_refused([&] { scaler.unscale(optimizer, {{&gradient, 1}}); }, "scale() was never called");
  expect_refused([&] { scaler.update(); }, "scale() was never called");
  scaler.scale(1.0F);
  expect_refused([&] { scaler.update(); }, "No inf checks were recorded prior to update");
  expect_refused([&] { scaler.step(optimizer, [] {}); }, "No inf checks were recorded for optimizer");
  scaler.unscale(optimizer, {{&gradient, 1}});
  expect_refused([&] { scaler.unscale(optimizer, {{&gradient, 1}}); }, "already been called on optimizer 'default'");
  scaler.step(optimizer, [] {});
  expect_refused([&] { scaler.step(optimizer, [] {}); }, "step() has already been called");
  expect_refused([&] { scaler.unscale(optimizer, {{&gradient, 1}}); }, "being called after step()");
  scaler.update();
  EXPECT_TRUE(iterate(scaler, optimizer, 1));
  EXPECT_THROW(scaler.unscale(77, {}), std::invalid_argument);
}

TEST(LossScaler, EmptyOptimizerHasNoChecks) {
  LossScaler scaler(fast());
  const auto optimizer = scaler.add_optimizer();
  scaler.scale(1.0F);
  scaler.unscale(optimizer, {});
  expect_refused([&] { scaler.step(optimizer, [] {}); }, "No inf checks");
}

TEST(LossScaler, MissingUpdateIsRefusedOrTolerated) {
  float gradient = 1;
  const auto forget = [&](LossScaler& scaler, std::uint32_t optimizer) {
    for (int i = 0; i < 3; ++i) {
      scaler.scale(1.0F);
      scaler.step(optimizer, {{&gradient, 1}}, [] {});
    }
  };
  LossScaler strict(fast());
  const auto refused = strict.add_optimizer();
  expect_refused([&] { forget(strict, refused); }, "call update() once an iteration");

  LossScalerOptions options = fast();
  options.tolerate_missing_update = true;
  LossScaler tolerant(options);
  forget(tolerant, tolerant.add_optimizer());
  EXPECT_EQ(tolerant.get_scale(), 1024.0F);
}

TEST(LossScaler, SavesAndRestores) {
  LossScaler scaler(fast(10));
  const auto optimizer = scaler.add_optimizer();
  iterate(scaler, optimizer, 1);
  iterate(scaler, optimizer, kInf);
  iterate(scaler, optimizer, 1);
  LossScaler restored;
  restored.load_state(scaler.state());
  EXPECT_EQ(restored.get_scale(), 512.0F);
  EXPECT_EQ(restored.growth_tracker(), 1U);
  EXPECT_EQ(restored.state().growth_interval, 10U);
  LossScalerState broken = scaler.state();
  broken.backoff_factor = 1;
  EXPECT_THROW(restored.load_state(broken), std::invalid_argument);
  EXPECT_EQ(restored.get_scale(), 512.0F);
  LossScalerOptions zero;
  zero.init_scale = 0;
  EXPECT_THROW(LossScaler{zero}, std::invalid_argument);
}

TEST(LossScaler, ReportsByItself) {
  FakeServer server;
  MonitorOptions opened;
  opened.run = "run";
  opened.server = server.address();
  Monitor monitor(opened);
  LossScalerOptions options = fast(1);
  options.tolerate_missing_update = true;
  LossScaler scaler(options, &monitor);
  const auto optimizer = scaler.add_optimizer();
  const auto attempt = [&](float gradient, bool update) {
    monitor.begin_attempt(1);
    float value = scaler.scale(gradient);
    scaler.step(optimizer, {{&value, 1}}, [] {});
    if (update) scaler.update();
    monitor.end_attempt();
  };
  attempt(1, true);
  attempt(kInf, true);
  attempt(1, false);
  attempt(1, false);
  monitor.begin_attempt(5);
  scaler.update();
  expect_refused([&] { scaler.update(); }, "No inf checks");
  monitor.end_attempt();

  const auto reports = server.reports(5);
  ASSERT_EQ(reports.size(), 5U);
  const auto& grown = reports[0].scalers(0);
  EXPECT_EQ(grown.scale_before(), 1024);
  EXPECT_EQ(grown.scale_after(), 2048);
  EXPECT_EQ(grown.growth_tracker(), 0U);
  EXPECT_EQ(grown.optimizers(0).found_inf_local(), 0);
  EXPECT_EQ(grown.optimizers(0).outcome(), v1::OUTCOME_APPLIED);
  const auto& skipped = reports[1].scalers(0);
  EXPECT_EQ(skipped.scale_before(), 2048);
  EXPECT_EQ(skipped.scale_after(), 1024);
  EXPECT_EQ(skipped.optimizers(0).found_inf_decided(), 1);
  EXPECT_EQ(skipped.optimizers(0).outcome(), v1::OUTCOME_SKIPPED);
  EXPECT_EQ(reports[2].scalers(0).scale_after(), 1024);  // said by step(), update() never came
  EXPECT_EQ(reports[2].misuse_size(), 0);
  ASSERT_EQ(reports[3].misuse_size(), 1);
  EXPECT_EQ(reports[3].misuse(0).kind(), "update_missing");
  EXPECT_FALSE(reports[3].misuse(0).raised());
  ASSERT_EQ(reports[4].misuse_size(), 1);
  EXPECT_EQ(reports[4].misuse(0).kind(), "update_without_checks");
  EXPECT_TRUE(reports[4].misuse(0).raised());
  const auto hello = server.hellos().front();
  EXPECT_EQ(hello.scalers(0).policy(), "pytorch");
  EXPECT_EQ(hello.scalers(0).parameters().at("growth_interval"), 1);
}

TEST(LossScaler, ReportsEachWrongUseAsMisuse) {
  FakeServer server;
  MonitorOptions opened;
  opened.run = "run";
  opened.server = server.address();
  Monitor monitor(opened);
  LossScaler scaler(fast(), &monitor);
  const auto adam = scaler.add_optimizer({"adam", "Adam"});
  const auto sgd = scaler.add_optimizer({"sgd", "SGD"});
  float gradient = 1;
  const std::vector<GradientView> gradients{{&gradient, 1}};
  monitor.begin_attempt(1);
  EXPECT_THROW(scaler.unscale(adam, gradients), std::logic_error);
  scaler.scale(1.0F);
  EXPECT_THROW(scaler.update(), std::logic_error);
  EXPECT_THROW(scaler.step(adam, [] {}), std::logic_error);
  scaler.unscale(adam, gradients);
  EXPECT_THROW(scaler.unscale(adam, gradients), std::logic_error);
  scaler.step(adam, [] {});
  EXPECT_THROW(scaler.unscale(adam, gradients), std::logic_error);
  EXPECT_THROW(scaler.step(adam, [] {}), std::logic_error);
  EXPECT_TRUE(scaler.step(sgd, gradients, [] {}));  // one optimizer's trouble is not the other's
  EXPECT_THROW(scaler.update(0.0F), std::logic_error);
  scaler.scale(1.0F);
  EXPECT_THROW(scaler.step(sgd, gradients, [] {}), std::logic_error);
  monitor.end_attempt();

  const auto reports = server.reports(1);
  ASSERT_EQ(reports.size(), 1U);
  std::vector<std::string> told;
  for (const auto& misuse : reports[0].misuse()) {
    EXPECT_TRUE(misuse.raised());
    told.push_back(misuse.kind());
  }
  EXPECT_EQ(told, (std::vector<std::string>{"step_without_scale", "update_without_checks", "no_inf_checks", "unscale_twice",
                                            "unscale_after_step", "step_twice", "bad_scale", "update_missing"}));
  EXPECT_EQ(reports[0].misuse(3).detail(), "unscale() has already been called on optimizer 'adam' since the last update().");
  EXPECT_EQ(reports[0].misuse(7).detail(),
            "step() has already been called on optimizer 'sgd' since the last update(): call update() once an iteration, "
            "after every step().");
}

// The example in the header's comment is the program that loss_scaler_example.cc compiles and runs.
TEST(LossScaler, TheHeadersExampleIsARealProgram) {
  std::ifstream program(SCALEWATCH_TEST_DATA "/../unit/client/loss_scaler_example.cc");
  std::string source(std::istreambuf_iterator<char>(program), {});
  std::ifstream header(SCALEWATCH_TEST_DATA "/../../client_lib/include/scalewatch/loss_scaler.hpp");
  std::size_t at = 0;
  int lines = 0;
  for (std::string line; std::getline(header, line) && line != "#pragma once";) {
    if (line.rfind("//   ", 0) != 0) continue;
    at = source.find("\n" + line.substr(3) + "\n", at);
    ASSERT_NE(at, std::string::npos) << line;
    ++lines;
  }
  EXPECT_GE(lines, 8);
}

}  // namespace
}  // namespace scalewatch::client_test

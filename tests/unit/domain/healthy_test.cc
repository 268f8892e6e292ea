// Healthy runs are silent, planted faults are not: over simulated scalers that ride an edge which wanders and is noisy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

// The largest gradient of an attempt in octaves: a random walk, with noise that is Gaussian or has a Pareto tail.
class Edge {
 public:
  explicit Edge(std::uint64_t seed) : random_(seed) {
    sigma_ = 0.05 + 0.35 * uniform();
    walk_ = 0.02 * uniform();
    tail_index_ = uniform() < 0.5 ? 0 : 4 + 4 * uniform();
    level_ = -2 + 4 * uniform();
  }
  double next() {
    level_ += walk_ * normal_(random_);
    double noise = sigma_ * normal_(random_);
    if (tail_index_ > 0) noise += -std::log2(1 - uniform()) / tail_index_;  // log2 of a Pareto variable
    return level_ + noise;
  }
  double uniform() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double sigma_ = 0;
  double walk_ = 0;
  double tail_index_ = 0;
  double level_ = 0;
};

struct Simulated {
  Driver driver;
  Edge edge;
  int skips = 0;
  bool counts_applied = false;  // the trainer numbers a step again when it was skipped

  // `rise`: octaves that the gradients are above what is healthy.
  void run(int attempts, double rise = 0) {
    for (int i = 0; i < attempts; ++i) {
      const double top = edge.next() + rise;
      const bool skip = driver.options.scaler && driver.policy->guards() && std::log2(driver.policy->scale()) + top > 16;
      skips += skip ? 1 : 0;
      driver.attempt(skip, [&](AttemptDigest& digest) {
        digest.observed_gradients = true;
        digest.observed_activations = true;
        digest.loss = 2 + 2 / (1 + 0.02 * static_cast<double>(digest.attempt)) + 0.1 * edge.uniform();
        if (counts_applied) digest.step = static_cast<std::int64_t>(driver.next) - skips;
        if (skip) add_bad(digest, edge.uniform() < 0.8 ? kGrad2 : kGrad1, 0, 1);
      });
    }
  }
};

Simulated simulate(std::uint64_t seed) {
  Edge edge(seed);
  constexpr double kIntervals[] = {20, 50, 100, 200, 500, 1000, 2000};
  DriverOptions options;
  options.ranks = seed % 10 == 0 ? 2 : 1;
  if (seed % 6 == 4) {
    options.policy = "static";
    options.parameters = {{"init_scale", 1024}};  // a choice with room above it
  } else if (seed % 6 == 5) {
    options.policy = "none";
    options.compute = DType::kBf16;
    options.scaler = seed % 12 == 5;
  } else {
    options.parameters = {{"growth_interval", kIntervals[seed % 7]}, {"init_scale", seed % 3 == 0 ? 0x1p24 : 0x1p16}};
  }
  return {Driver(options), edge, 0, seed % 2 == 0};
}

int length(std::uint64_t seed) {
  return 200 + static_cast<int>(seed * 7919 % 5801);
}

// In parts that a test runner may run side by side; together at least 200 runs.
class Healthy : public testing::TestWithParam<int> {};

TEST_P(Healthy, RunsFireNothingAboveInfo) {
  int skips = 0;
  const auto first = static_cast<std::uint64_t>(GetParam());
  for (std::uint64_t seed = first; seed < first + 60; ++seed) {
    Simulated run = simulate(seed);
    run.run(length(seed));
    run.driver.leave_all();
    skips += run.skips;
    for (const FindingEvent& event : run.driver.events) {
      ASSERT_LE(event.finding.severity, Severity::kInfo) << "seed " << seed << " " << event.finding.id << ": "
                                                         << event.finding.summary << " at " << event.finding.last_attempt;
    }
  }
  EXPECT_GT(skips, 1000);  // they did ride the edge
}

INSTANTIATE_TEST_SUITE_P(Seeds, Healthy, testing::Values(1, 61, 121, 181));

// Every policy at its own defaults, and with a growth so frequent that it rides the edge.
class HealthyPolicy : public testing::TestWithParam<std::string> {};

TEST_P(HealthyPolicy, RunsFireNothingAboveInfo) {
  const std::vector<std::string> known = check_parameters(GetParam(), {})->known;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    DriverOptions options;
    options.policy = GetParam();
    if (GetParam() == "none") options.compute = DType::kBf16;
    for (const char* interval : {"growth_interval", "scale_window", "incr_every_n_steps"}) {
      if (seed % 2 == 0 && std::ranges::find(known, interval) != known.end()) options.parameters[interval] = 50;
    }
    Simulated run{Driver(options), Edge(seed), 0, seed % 4 < 2};
    run.run(length(seed));
    run.driver.leave_all();
    for (const FindingEvent& event : run.driver.events) {
      ASSERT_LE(event.finding.severity, Severity::kInfo) << "seed " << seed << " " << event.finding.id << ": "
                                                         << event.finding.summary << " at " << event.finding.last_attempt;
    }
  }
}

std::vector<std::string> all_policies() {
  const auto names = policy_names();
  return {names.begin(), names.end()};
}
INSTANTIATE_TEST_SUITE_P(Policies, HealthyPolicy, testing::ValuesIn(all_policies()),
                         [](const auto& policy) { return policy.param; });

TEST(Planted, AJumpOfTheGradientsIsToldWithinTwentyAttempts) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    if (seed % 6 >= 4) continue;
    Simulated run = simulate(seed);
    run.run(400);
    run.driver.events.clear();
    run.run(20, 12);  // octaves
    ASSERT_NE(run.driver.find("ConsecutiveSkips"), nullptr) << seed;
    EXPECT_EQ(run.driver.find("ConsecutiveSkips")->severity, Severity::kCritical);
    ASSERT_NE(run.driver.find("ScaleCollapse"), nullptr) << seed;
  }
}

TEST(Planted, FrequentSkipsAreToldWithinTheWindow) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    if (seed % 6 >= 4) continue;
    Simulated run = simulate(seed);
    run.run(400);
    run.driver.events.clear();
    for (int i = 0; i < 20 && run.driver.find("FrequentSkippedSteps") == nullptr; ++i) {
      run.driver.attempt(true);
      run.run(7);
    }
    ASSERT_NE(run.driver.find("FrequentSkippedSteps"), nullptr) << seed;
  }
}

}  // namespace
}  // namespace scalewatch::domain

#include "server/domain/policy.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Policies, RefuseUnknownNamesAndSenselessParameters) {
  EXPECT_EQ(make_policy("megatronn", {}), nullptr);
  EXPECT_EQ(make_policy("pytorch", {{"init_scale", -1}})->init_scale(), 65536);
  EXPECT_EQ(make_policy("pytorch", {{"init_scale", NAN}})->init_scale(), 65536);
  EXPECT_EQ(policy_names().size(), 3u);
}

}  // namespace
}  // namespace scalewatch::domain

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string>

#include "server/engine/readings_codec.h"
#include "server/engine/tensor_meter.h"

namespace scalewatch::engine {
namespace {

using domain::AttemptDigest;
using domain::RecordColumns;
using domain::TensorInfo;
using domain::TensorTable;

constexpr float kFp16Max = 65504;

std::shared_ptr<const TensorTable> table_of(std::size_t count, Role role, DType dtype, std::uint64_t numel) {
  auto table = std::make_shared<TensorTable>();
  for (std::size_t i = 0; i < count; ++i) {
    TensorInfo& info = table->emplace_back();
    info.name = "t" + std::to_string(i);
    info.role = role;
    info.dtype = dtype;
    info.numel = numel;
  }
  return table;
}

// A block with one record a tensor of the table; columns to be pointed at by the test.
RecordColumns block_of(Role role, std::span<const float> low, std::span<const float> high) {
  RecordColumns block;
  block.role = role;
  block.target = DType::kFp16;
  block.count = static_cast<std::uint32_t>(low.size());
  block.min = low;
  block.max = high;
  return block;
}

AttemptDigest digest_of(std::shared_ptr<const TensorTable> table, domain::Attempt attempt = 1) {
  AttemptDigest digest;
  digest.attempt = attempt;
  digest.table = std::move(table);
  return digest;
}

const RoleReading& of(const RankReading& reading, Role role) {
  return reading.roles.at(static_cast<std::size_t>(role));
}

struct TensorMeterTest : ::testing::Test {
  TensorMeter meter;
  TensorMeterTest() { meter.configure(DType::kFp16, 2); }
};

TEST_F(TensorMeterTest, LeastHeadroomAndSharesOfUnderflow) {
  const auto table = table_of(3, Role::kActivation, DType::kFp16, 100);
  const std::array<float, 3> low = {-1, -kFp16Max / 8, -2};
  const std::array<float, 3> high = {2, 1, kFp16Max};  // the last is a mask
  const std::array<std::uint64_t, 3> zero = {0, 50, 100};
  const std::array<std::uint64_t, 3> subnormal = {20, 40, 0};
  RecordColumns block = block_of(Role::kActivation, low, high);
  block.zero = zero;
  block.subnormal = subnormal;
  const auto reading = meter.take(std::array{block}, digest_of(table), 1000);
  ASSERT_TRUE(reading);
  const RoleReading& role = of(*reading, Role::kActivation);
  EXPECT_DOUBLE_EQ(role.headroom.value(), 3);
  EXPECT_DOUBLE_EQ(role.under / role.non_zero, 60.0 / 150);
  EXPECT_DOUBLE_EQ(role.worst_under.value(), 0.8);
  EXPECT_FALSE(of(*reading, Role::kGradient).headroom);
  ASSERT_EQ(reading->tensors.size(), 2U);
  EXPECT_TRUE(std::any_of(reading->tensors.begin(), reading->tensors.end(), [](const TensorReading& tensor) {
    return tensor == TensorReading{"t1", Role::kActivation, 3};
  }));
}

TEST_F(TensorMeterTest, UnderALossScaleTheCountsOfUnscaledValuesSayNothing) {
  const auto table = table_of(1, Role::kGradient, DType::kFp32, 1000);
  const std::array<float, 1> low = {-1};
  const std::array<float, 1> high = {1};
  const std::array<double, 1> sum_sq = {900};             // as stored: hardly anything can be subnormal
  const std::array<std::uint64_t, 1> subnormal = {1000};  // without the scale all would be
  RecordColumns block = block_of(Role::kGradient, low, high);
  block.measured_under_scale = 65536;
  block.sum_sq = sum_sq;
  block.subnormal = subnormal;
  EXPECT_EQ(of(*meter.take(std::array{block}, digest_of(table), 1000), Role::kGradient).worst_under, 0);
  const std::array<double, 1> tiny = {1e-9};  // of 1,000 elements: at most 0.27 can be normal
  block.sum_sq = tiny;
  EXPECT_GT(of(*meter.take(std::array{block}, digest_of(table), 2000), Role::kGradient).worst_under, 0.99);
}

TEST_F(TensorMeterTest, WhatIsLeftBesideNaNSaysNothingOfUnderflow) {
  const auto table = table_of(2, Role::kGradient, DType::kFp16, 1000);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::array<float, 2> low = {-1, -1};
  std::array<float, 2> high = {1, 1};
  std::array<double, 2> sum_sq = {900, 900};
  RecordColumns block = block_of(Role::kGradient, low, high);
  block.measured_under_scale = 1024;
  block.sum_sq = sum_sq;
  meter.take(std::array{block}, digest_of(table), 1000);
  sum_sq[0] = 0;  // all but a few zeros are NaN
  block.nan = {{0, 990}};
  EXPECT_EQ(of(*meter.take(std::array{block}, digest_of(table), 2000), Role::kGradient).worst_under, 0);
  // Nothing finite is left: the role stays as it was.
  low = {nan, nan};
  high = {nan, nan};
  block.nan = {{0, 1000}, {1, 1000}};
  EXPECT_TRUE(of(*meter.take(std::array{block}, digest_of(table), 3000), Role::kGradient).headroom);
}

TEST_F(TensorMeterTest, LooksAtARoleNowAndThenAndAtRetrospectiveReportsNever) {
  const auto table = table_of(1, Role::kActivation, DType::kFp16, 1);
  const std::array<float, 1> low = {-1};
  const std::array<float, 1> high = {1};
  const std::array block = {block_of(Role::kActivation, low, high)};
  AttemptDigest old = digest_of(table);
  old.retrospective = true;
  EXPECT_FALSE(meter.take(block, old, 1000));
  EXPECT_TRUE(meter.take(block, digest_of(table), 1000));
  EXPECT_FALSE(meter.take(block, digest_of(table), 1000 + TensorMeter::kEveryMs - 1));
  // Another role is due by itself.
  const std::array other = {block_of(Role::kGradient, low, high)};
  EXPECT_TRUE(meter.take(other, digest_of(table), 1001));
  EXPECT_TRUE(meter.take(block, digest_of(table), 1000 + TensorMeter::kEveryMs));
}

TEST_F(TensorMeterTest, ATensorTakesAPlaceOnlyWhenItIsClearlyWorse) {
  const auto table = table_of(4, Role::kActivation, DType::kFp16, 1);
  std::array<float, 4> low{};
  std::array<float, 4> high = {100, 200, 0, 0};
  std::int64_t now = 0;
  const auto kept = [&] {
    const auto reading = meter.take(std::array{block_of(Role::kActivation, low, high)}, digest_of(table), now += 1000);
    std::set<std::string> names;
    for (const TensorReading& tensor : reading->tensors) names.insert(tensor.name);
    return names;
  };
  EXPECT_EQ(kept(), (std::set<std::string>{"t0", "t1"}));
  high[2] = 190;  // more than t0, by less than an octave
  EXPECT_EQ(kept(), (std::set<std::string>{"t0", "t1"}));
  high[2] = 210;
  EXPECT_EQ(kept(), (std::set<std::string>{"t2", "t1"}));
}

TEST(Readings, ComeBackFromASnapshotAsTheyWere) {
  RunReadings readings;
  readings.scalers = {{2, 1.0}, {std::nullopt, std::nullopt}};
  readings.gradient_norm = std::numeric_limits<double>::infinity();
  readings.roles.at(1) = {.headroom = 1.25, .non_zero = 1000, .under = 250, .worst_under = 0.75};
  readings.roles.at(2).headroom = -3;
  readings.tensors = {{"head.weight", Role::kGradient, 1.25}, {"b", Role::kBuffer, 2.5}};
  readings.counts.non_finite_elements.at(1) = 12;
  readings.counts.non_finite_attempts.at(1) = 4;
  readings.counts.non_finite_losses = 2;
  readings.counts.skips.at(0) = 3;
  readings.counts.non_finite_applied = 1;
  const RunReadings back = decode_readings(nlohmann::json::from_cbor(nlohmann::json::to_cbor(encode_readings(readings))));
  EXPECT_EQ(back, readings);
  EXPECT_EQ(decode_readings(encode_readings(RunReadings())), RunReadings());
}

}  // namespace
}  // namespace scalewatch::engine

// Exponent histograms of gradients: which attempts bring them, and that they are what the data is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"
#include "tests/unit/client/histograms.h"

namespace scalewatch::client_test {
namespace {

class Histogram : public testing::Test {
 protected:
  Monitor open(std::uint32_t every, std::uint64_t buffer_bytes = 0) {
    MonitorOptions made;
    made.run = "run";
    made.server = server.address();
    made.histogram_every = every;
    made.buffer_bytes = buffer_bytes;
    return Monitor(made);
  }
  // The attempts wait for one another: so soon after each other there would be no room.
  void end(Monitor& monitor) {
    monitor.end_attempt();
    ASSERT_TRUE(monitor.wait_durable(20'000));
  }
  FoundHistograms of(std::size_t attempt) { return histograms_of(server.reports(attempt).back()); }

  FakeServer server;
};

std::uint32_t gradient(Monitor& monitor, const std::string& name, scalewatch_dtype dtype, std::uint64_t numel) {
  return monitor.add_tensor({name, SCALEWATCH_GRADIENT, dtype, numel, 0, "", "", ""});
}

TEST_F(Histogram, HoldsWhatTheTensorHolds) {
  Monitor monitor = open(1);
  const std::vector<float> data = {1, -1.5F, 3, 0, 0x1p-149F, -0x1.8p-127F, 0x1.FFFFFEp127F, 1024};
  const std::vector<std::uint16_t> half = {0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x0000, 0x3C00};
  const std::vector<double> wide = {0x1p-1074, 0x1p300, -2, 0};
  const auto a = gradient(monitor, "a", SCALEWATCH_FP32, data.size());
  const auto b = gradient(monitor, "b", SCALEWATCH_FP16, half.size());
  const auto c = gradient(monitor, "c", SCALEWATCH_FP64, wide.size());
  const auto every_other = gradient(monitor, "every other", SCALEWATCH_FP32, 4);
  const auto zeros = gradient(monitor, "zeros", SCALEWATCH_FP32, 1);
  const auto parameter = monitor.add_tensor({"p", SCALEWATCH_PARAMETER, SCALEWATCH_FP32, data.size(), 0, "", "", ""});
  const auto given = gradient(monitor, "given", SCALEWATCH_FP32, 1);
  monitor.begin_attempt(1);
  monitor.observe(a, data.data(), data.size(), 8);
  monitor.observe(b, half.data(), half.size(), 1024);
  monitor.observe(c, wide.data(), wide.size());
  const std::uint64_t sizes[] = {4};
  const std::int64_t strides[] = {2};
  ASSERT_EQ(scalewatch_observe_strided(monitor.handle(), every_other, data.data(), 1, sizes, strides, 1, 0), SCALEWATCH_OK);
  const float zero = 0;
  monitor.observe(zeros, &zero, 1);
  monitor.observe(parameter, data.data(), data.size());
  scalewatch_record record{};
  record.size = sizeof record;
  record.numel = 1;
  ASSERT_EQ(scalewatch_observe_record(monitor.handle(), given, &record, 1, 0), SCALEWATCH_OK);
  end(monitor);
  FoundHistograms found = of(1);
  // Values as stored, whatever their scale; of fp64 those beyond float's range in the outermost bins.
  EXPECT_EQ(found[a], (Exponents{{0, 2}, {1, 1}, {-149, 1}, {-127, 1}, {127, 1}, {10, 1}}));
  EXPECT_EQ(found[b], (Exponents{{-24, 2}, {-15, 1}, {-14, 1}, {15, 2}, {0, 1}}));
  EXPECT_EQ(found[c], (Exponents{{-149, 1}, {127, 1}, {1, 1}}));
  EXPECT_EQ(found[every_other], (Exponents{{0, 1}, {1, 1}, {-149, 1}, {127, 1}}));
  EXPECT_EQ(found.size(), 4U);  // no other has any
}

TEST_F(Histogram, ComesAtItsCadenceWithFullRecordsOfFiniteGradients) {
  Monitor monitor = open(3);
  SamplingOptions seldom;
  seldom.include = "seldom";
  seldom.report_every = 2;
  monitor.add_sampling(seldom);
  const auto a = gradient(monitor, "a", SCALEWATCH_FP32, 2);
  const auto b = gradient(monitor, "seldom", SCALEWATCH_FP32, 2);
  for (int attempt = 1; attempt <= 10; ++attempt) {
    const float data[] = {2, attempt == 7 ? std::numeric_limits<float>::infinity() : 0.5F};
    monitor.begin_attempt(attempt);
    monitor.observe(a, data, 2);
    monitor.observe(b, data, 1);
    monitor.observe(b, data + 1, 1);  // a second micro-batch
    end(monitor);
  }
  const auto reports = server.reports(10);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const std::uint64_t attempt = reports[i].attempt();
    FoundHistograms found = histograms_of(reports[i]);
    const bool due = !reports[i].retrospective() && (attempt - 1) % 3 == 0 && attempt != 7;
    EXPECT_EQ(found.contains(a), due) << attempt;
    EXPECT_EQ(found.contains(b), due && (attempt - 1) % 2 == 0) << attempt;
    for (const auto& [id, exponents] : found) EXPECT_EQ(exponents, (Exponents{{1, 1}, {-1, 1}})) << attempt;
  }
  EXPECT_EQ(monitor.stats().histograms_lost, 0U);
}

TEST_F(Histogram, CanBeSwitchedOff) {
  Monitor monitor = open(0);
  const auto a = gradient(monitor, "a", SCALEWATCH_FP32, 1);
  const float one = 1;
  monitor.begin_attempt(1);
  monitor.observe(a, &one, 1);
  end(monitor);
  EXPECT_TRUE(of(1).empty());
  EXPECT_EQ(monitor.stats().histograms_lost, 0U);
}

// Statistics of one micro-batch came from elsewhere: a histogram of the others would not be the record's.
TEST_F(Histogram, IsOfAllMicroBatchesOrNone) {
  Monitor monitor = open(1);
  const auto a = gradient(monitor, "a", SCALEWATCH_FP32, 1);
  const float one = 1;
  scalewatch_record record{};
  record.size = sizeof record;
  record.numel = 1;
  monitor.begin_attempt(1);
  monitor.observe(a, &one, 1);
  scalewatch_observe_record(monitor.handle(), a, &record, 1, 0);
  end(monitor);
  EXPECT_TRUE(of(1).empty());
}

TEST_F(Histogram, GradientsTakeTurnsWhenThereAreMoreThanRoom) {
  Monitor monitor = open(1, 64 << 10);  // room for 16
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(gradient(monitor, std::to_string(i), SCALEWATCH_FP32, 1));
  std::map<std::uint32_t, int> times;
  for (std::size_t attempt = 1; attempt <= 6; ++attempt) {
    const float one = 1;
    monitor.begin_attempt(static_cast<std::int64_t>(attempt));
    for (const std::uint32_t id : ids) monitor.observe(id, &one, 1);
    end(monitor);
    const FoundHistograms found = of(attempt);
    EXPECT_LE(found.size(), 16U);
    for (const auto& [id, exponents] : found) ++times[id];
  }
  EXPECT_EQ(times.size(), ids.size());
  for (const auto& [id, count] : times) EXPECT_EQ(count, 2) << id;
}

// Those of the first attempts are still on their way, as their reports are: the statistics go on, histograms do not.
TEST_F(Histogram, IsTheFirstToGoWhenThereIsNoRoom) {
  Monitor monitor = open(1);
  const auto a = gradient(monitor, "a", SCALEWATCH_FP32, 1);
  const float one = 1;
  constexpr std::uint64_t kAttempts = 200;
  for (std::uint64_t i = 0; i < kAttempts; ++i) {
    monitor.begin_attempt(1);
    monitor.observe(a, &one, 1);
    monitor.end_attempt();
  }
  ASSERT_TRUE(monitor.wait_durable(20'000));
  std::uint64_t with = 0;
  for (const v1::Report& report : server.reports(kAttempts)) {
    EXPECT_EQ(report.blocks_size(), 1);
    EXPECT_EQ(report.statistics_lost(), v1::LOSS_CAUSE_UNSPECIFIED);
    with += histograms_of(report).size();
  }
  EXPECT_GT(with, 0U);
  EXPECT_LT(with, kAttempts);
  EXPECT_EQ(monitor.stats().histograms_lost, kAttempts - with);
}

// Tensors that come later than the first attempt get their room a little later.
TEST_F(Histogram, MakesRoomForTensorsThatComeLater) {
  Monitor monitor = open(1);
  monitor.begin_attempt(1);
  end(monitor);
  const auto a = gradient(monitor, "a", SCALEWATCH_FP32, 1);
  const float one = 1;
  std::size_t attempt = 1;
  while (attempt < 10) {
    monitor.begin_attempt(1);
    monitor.observe(a, &one, 1);
    end(monitor);
    if (of(++attempt).contains(a)) break;
  }
  EXPECT_LT(attempt, 10U);
}

}  // namespace
}  // namespace scalewatch::client_test

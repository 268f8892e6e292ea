// Tensors on GPUs, from the trainer's calls to what the server is told; and what GPUs that fail leave of it.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/client/device_trainer.h"
#include "tests/unit/client/fake_server.h"
#include "tests/unit/client/histograms.h"

namespace scalewatch::client_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Sum, scale and Inf of each tensor of a report.
struct Seen {
  double sum = 0, scale = 0;
  std::uint64_t pos_inf = 0;
  std::uint32_t micro_batches = 0;
};
std::map<std::uint32_t, Seen> seen(const v1::Report& report) {
  std::map<std::uint32_t, Seen> all;
  for (const v1::RecordBlock& block : report.blocks()) {
    for (std::uint32_t i = 0; i < block.count(); ++i) {
      const std::uint32_t id = block.ids().empty() ? block.first_id() + i : block.ids(static_cast<int>(i));
      all[id] = {block.sum(static_cast<int>(i)), block.measured_under_scale(), 0, block.micro_batches()};
      for (const auto& count : block.pos_inf()) {
        if (count.index() == i) all[id].pos_inf = count.count();
      }
    }
  }
  return all;
}

class OnDevice : public testing::Test {
 protected:
  OnDevice() { fake_cuda::reset(); }
  ~OnDevice() override { EXPECT_EQ(fake_cuda::misuse(), std::vector<std::string>()); }
};

TEST_F(OnDevice, TensorsAndScalerReachTheServer) {
  FakeServer server;
  DeviceTrainer trainer(server.address());
  ASSERT_TRUE(trainer.attempt());
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_TRUE(server.messages().empty() || server.reports(0).empty());  // the GPU has not done it yet
  fake_cuda::run_all();
  ASSERT_TRUE(trainer.attempt(kInf, 1));
  fake_cuda::set_automatic(true);
  ASSERT_TRUE(trainer.monitor().wait_durable(20'000));

  const auto reports = server.reports(2);
  auto first = seen(reports[0]);
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first[0].sum, 6);
  EXPECT_EQ(first[0].scale, 1024);
  EXPECT_EQ(first[1].sum, 15);
  EXPECT_EQ(first[1].scale, 1);
  EXPECT_EQ(first[2].sum, 24);
  EXPECT_EQ(first[3].sum, 5);
  auto second = seen(reports[1]);
  EXPECT_EQ(second[0].pos_inf, 1U);
  EXPECT_EQ(second[0].sum, 5);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(reports[static_cast<std::size_t>(i)].scalers_size(), 1);
    const v1::ScalerObservation& scaler = reports[static_cast<std::size_t>(i)].scalers(0);
    EXPECT_EQ(scaler.scale_before(), 1024);
    EXPECT_EQ(scaler.scale_after(), i == 0 ? 1024 : 512);
    EXPECT_EQ(scaler.growth_tracker(), static_cast<std::uint64_t>(i + 1));
    ASSERT_EQ(scaler.optimizers_size(), 1);
    EXPECT_EQ(scaler.optimizers(0).found_inf_local(), i);
    EXPECT_EQ(scaler.optimizers(0).outcome(), i == 0 ? v1::OUTCOME_APPLIED : v1::OUTCOME_SKIPPED);
  }
  EXPECT_GT(reports[1].client().cuda_driver_calls(), 0U);
  EXPECT_GT(reports[1].client().cuda_poll_calls(), 0U);
  EXPECT_EQ(reports[1].client().device_faults_size(), 0);
  EXPECT_EQ(reports[1].statistics_lost(), v1::LOSS_CAUSE_UNSPECIFIED);
  EXPECT_TRUE(trainer.monitor().close(20'000));
}

// With histograms at every attempt, and at none of those that are counted.
class OnDeviceWithHistograms : public OnDevice, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Every, OnDeviceWithHistograms, testing::Bool());

TEST_P(OnDeviceWithHistograms, AnAttemptCallsTheDriverAFixedNumberOfTimes) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  DeviceTrainer trainer(server.address(), GetParam() ? 1 : 100);
  for (int i = 0; i < 3; ++i) {
    trainer.attempt();
    ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  }
  const std::uint64_t before = trainer.monitor().stats().cuda_driver_calls;
  fake_cuda::forget_calls();
  for (int i = 0; i < 17; ++i) {
    trainer.attempt();
    ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  }
  const scalewatch_stats stats = trainer.monitor().stats();
  // GPU 0: an activation at once (3 calls), 4 for its gradients, 3 for the scalars before the update, 5 after. GPU 1: 4 for its
  // gradients, 4 to copy them, and 4 to push and pop its context twice. Of 51 launches 3 are timed, with 2 calls each.
  // Histograms are a fill and a launch on each GPU.
  const std::uint64_t histograms = GetParam() ? 2 + 2 : 0;
  EXPECT_EQ(stats.cuda_driver_calls - before, 17U * (3 + 4 + 3 + 5 + 4 + 4 + 4 + histograms) + 2 * 3);
  EXPECT_GT(stats.gpu_ns, 0U);
  EXPECT_EQ(stats.device_lost_busy + stats.device_lost_late + stats.device_lost_quiet, 0U);
  for (const fake_cuda::Call& call : fake_cuda::calls()) {
    EXPECT_TRUE(call.name.find("Alloc") == std::string::npos && call.name.find("Synchronize") == std::string::npos)
        << call.name;
  }
  EXPECT_TRUE(trainer.monitor().close(20'000));
}

TEST_F(OnDevice, HistogramsComeWithTheRecordsOfTheirAttempts) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  DeviceTrainer trainer(server.address(), 2);
  for (int i = 1; i <= 3; ++i) {
    trainer.attempt(static_cast<float>(i));
    ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  }
  const auto reports = server.reports(3);
  for (std::size_t i = 0; i < 3; ++i) {
    FoundHistograms found = histograms_of(reports[i]);
    EXPECT_EQ(seen(reports[i]).size(), 4U);
    if (i == 1) {
      EXPECT_TRUE(found.empty());
      continue;
    }
    ASSERT_EQ(found.size(), 3U);  // of gradients
    EXPECT_EQ(found[trainer.first()], i == 0 ? (Exponents{{0, 1}, {1, 2}}) : (Exponents{{1, 3}}));
    EXPECT_EQ(found[trainer.second()], (Exponents{{2, 3}}));
    EXPECT_EQ(found[trainer.host()], (Exponents{{2, 1}}));
  }
  EXPECT_EQ(trainer.monitor().stats().histograms_lost, 0U);
}

// Noted and transient, contiguous and strided, of several chunks and of none, in two micro-batches.
TEST_F(OnDevice, HistogramsHoldWhatTheTensorsHold) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  MonitorOptions options;
  options.run = "run";
  options.server = server.address();
  options.histogram_every = 1;
  std::vector<float> values(40'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(1.0F, static_cast<int>(i % 200) - 140);
  const OnGpu data(0, values);
  Exponents all;
  Exponents every_other;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ++all[std::ilogb(values[i])];
    if (i % 2 == 0) ++every_other[std::ilogb(values[i])];
  }
  void* const stream = fake_cuda::make_stream(0);
  fake_cuda::make_current(0);
  Monitor monitor(options);
  const std::uint64_t halves[] = {values.size() / 2};
  const std::int64_t two[] = {2};
  struct Case {
    bool transient, strided;
    std::uint64_t numel;
    std::uint32_t id;
  };
  std::vector<Case> cases;
  for (const bool transient : {false, true}) {
    for (const bool strided : {false, true}) cases.push_back({transient, strided, strided ? halves[0] : values.size(), 0});
    cases.push_back({transient, false, 0, 0});
  }
  for (Case& each : cases) {
    const std::string name = std::to_string(&each - cases.data());
    each.id = monitor.add_tensor({name, SCALEWATCH_GRADIENT, SCALEWATCH_FP32, each.numel, 0, "", "", ""});
  }
  const scalewatch_device gpu{sizeof gpu, 0, stream};
  const auto observe = [&](const Case& each) {
    scalewatch_device_tensor how{};
    how.size = sizeof how;
    how.ndim = each.strided ? 1 : 0;
    how.sizes = halves;
    how.strides = two;
    how.transient = each.transient ? 1 : 0;
    EXPECT_EQ(scalewatch_observe_device(monitor.handle(), each.id, data.as<float>(), each.numel, &gpu, &how), SCALEWATCH_OK);
  };
  monitor.begin_attempt(1);
  for (const Case& each : cases) observe(each);
  monitor.measure_device();
  observe(cases[0]);  // a second micro-batch
  monitor.end_attempt();
  ASSERT_TRUE(monitor.wait_durable(20'000));
  FoundHistograms found = histograms_of(server.reports(1)[0]);
  Exponents twice = all;
  for (auto& [exponent, count] : twice) count *= 2;
  for (const Case& each : cases) {
    if (each.numel == 0) {
      EXPECT_FALSE(found.contains(each.id));
      continue;
    }
    EXPECT_EQ(found[each.id], each.strided ? every_other : each.id == cases[0].id ? twice : all) << each.id;
  }
  EXPECT_EQ(monitor.stats().histograms_lost, 0U);
  EXPECT_TRUE(monitor.close(20'000));
}

// One attempt on more streams than there are batches with room for histograms.
TEST_F(OnDevice, HistogramsWithoutRoomAreLostAndNothingElse) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  MonitorOptions options;
  options.run = "run";
  options.server = server.address();
  const OnGpu data(0, std::vector<float>{1, 2});
  fake_cuda::make_current(0);
  Monitor monitor(options);
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < 1024; ++i) {  // as many as make few batches
    ids.push_back(monitor.add_tensor({std::to_string(i), SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 2, 0, "", "", ""}));
  }
  monitor.begin_attempt(1);
  constexpr std::size_t kStreams = 8;
  for (std::size_t i = 0; i < kStreams; ++i) {
    // The gradients take turns: of two neighbours one has its turn at this attempt.
    monitor.observe_device(ids[2 * i], data.as<void>(), 2, {0, fake_cuda::make_stream(0)});
  }
  monitor.end_attempt();
  ASSERT_TRUE(monitor.wait_durable(20'000));
  const v1::Report report = server.reports(1)[0];
  EXPECT_EQ(seen(report).size(), kStreams);
  EXPECT_EQ(report.statistics_lost(), v1::LOSS_CAUSE_UNSPECIFIED);
  const std::size_t found = histograms_of(report).size();
  EXPECT_GE(found, 2U);
  EXPECT_LT(found, kStreams);
  EXPECT_EQ(monitor.stats().histograms_lost, kStreams - found);
  EXPECT_TRUE(monitor.close(20'000));
}

TEST_F(OnDevice, AGpuWithoutMemoryForHistogramsIsMeasuredAllTheSame) {
  for (const char* call : {"cuMemAlloc_v2", "cuMemHostAlloc"}) {
    fake_cuda::reset();
    fake_cuda::set_automatic(true);
    FakeServer server;
    DeviceTrainer trainer(server.address(), 1);
    fake_cuda::fail_next(call, 2);
    for (std::size_t attempt = 1; attempt <= 2; ++attempt) {
      ASSERT_TRUE(trainer.attempt());
      ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
      const v1::Report report = server.reports(attempt).back();
      EXPECT_EQ(seen(report).size(), 4U);
      EXPECT_EQ(histograms_of(report).size(), 2U);  // of the other GPU's tensor and the host's
      EXPECT_EQ(trainer.monitor().stats().histograms_lost, attempt);
    }
    EXPECT_EQ(trainer.monitor().stats().device_fault, 0);
    EXPECT_TRUE(trainer.monitor().close(20'000));
  }
}

TEST_F(OnDevice, StridedTensorsAreMeasuredInAnyOrderOfTheirDimensions) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  MonitorOptions options;
  options.run = "run";
  options.server = server.address();
  const OnGpu data(0, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  const scalewatch_device gpu{sizeof gpu, 0, nullptr};
  fake_cuda::make_current(0);
  Monitor monitor(options);
  struct View {
    std::vector<std::uint64_t> sizes;
    std::vector<std::int64_t> strides;
    std::size_t first;
    double sum;
  };
  const View views[] = {{{2, 4}, {4, 1}, 0, 36},
                        {{4, 2}, {1, 4}, 0, 36},
                        {{2, 2}, {4, 2}, 0, 1 + 3 + 5 + 7},
                        {{3}, {-2}, 5, 6 + 4 + 2},
                        {{2, 3}, {0, 1}, 1, 2 * (2 + 3 + 4)},
                        {{2, 0, 3}, {1, 1, 1}, 0, 0},
                        {{1, 2, 1, 2}, {9, 1, 9, 4}, 2, 3 + 4 + 7 + 8}};
  std::vector<std::uint32_t> ids;
  std::vector<std::uint64_t> numels;
  for (const View& view : views) {
    numels.push_back(1);
    for (const std::uint64_t size : view.sizes) numels.back() *= size;
    const std::string name = "view " + std::to_string(ids.size());
    ids.push_back(monitor.add_tensor({name, SCALEWATCH_PARAMETER, SCALEWATCH_FP32, numels.back(), 0, "", "", ""}));
  }
  monitor.begin_attempt(1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const View& view = views[i];
    scalewatch_device_tensor how{};
    how.size = sizeof how;
    how.ndim = static_cast<std::uint32_t>(view.sizes.size());
    how.sizes = view.sizes.data();
    how.strides = view.strides.data();
    how.transient = i % 2 == 0 ? 1 : 0;
    EXPECT_EQ(scalewatch_observe_device(monitor.handle(), ids[i], data.as<float>() + view.first, numels[i], &gpu, &how),
              SCALEWATCH_OK);
  }
  monitor.end_attempt();
  ASSERT_TRUE(monitor.wait_durable(20'000));
  auto found = seen(server.reports(1)[0]);
  for (std::uint32_t i = 0; i < std::size(views); ++i) EXPECT_EQ(found[i].sum, views[i].sum) << i;
  EXPECT_TRUE(monitor.close(20'000));
}

TEST_F(OnDevice, GraphsAreCollectedAfterTheirReplaysWithoutHistograms) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  DeviceTrainer trainer(server.address(), 1);
  Monitor& m = trainer.monitor();
  void* on = trainer.stream(0);
  m.begin_attempt(1);
  fake_cuda::begin_capture(on);
  ASSERT_TRUE(m.observe_device(trainer.first(), trainer.data(0).as<void>(), 3, {0, on}));
  std::uint32_t graph = 0;
  ASSERT_TRUE(m.measure_device(&graph));
  ASSERT_NE(graph, SCALEWATCH_NO_GRAPH);
  const int captured = fake_cuda::end_capture(on);
  m.end_attempt();
  m.begin_attempt(2);
  fake_cuda::replay(captured, on);
  fake_cuda::enqueue(on, [&] { trainer.data(0).as<float>()[0] = 10; });
  fake_cuda::replay(captured, on);
  ASSERT_TRUE(m.observe_graph(graph, on));
  EXPECT_EQ(scalewatch_observe_graph(m.handle(), graph + 1, on), SCALEWATCH_INVALID_ARGUMENT);
  m.end_attempt();
  ASSERT_TRUE(m.wait_durable(20'000));
  const auto reports = server.reports(2);
  EXPECT_TRUE(seen(reports[0]).empty());
  auto second = seen(reports[1]);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].sum, 6 + 15);
  EXPECT_EQ(second[0].micro_batches, 2U);
  EXPECT_TRUE(histograms_of(reports[1]).empty());
  EXPECT_EQ(m.stats().histograms_lost, 0U);
  EXPECT_TRUE(m.close(20'000));
}

TEST_F(OnDevice, NothingOfAnAttemptGetsIntoACaptureThatBeganMeanwhile) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  DeviceTrainer trainer(server.address());
  Monitor& m = trainer.monitor();
  void* on = trainer.stream(0);
  m.begin_attempt(1);
  ASSERT_TRUE(m.observe_device(trainer.first(), trainer.data(0).as<void>(), 3, {0, on}));
  ASSERT_TRUE(m.measure_device());
  fake_cuda::begin_capture(on);
  EXPECT_TRUE(m.end_attempt());
  fake_cuda::replay(fake_cuda::end_capture(on), on);
  ASSERT_TRUE(m.wait_durable(20'000));
  EXPECT_EQ(server.reports(1)[0].statistics_lost(), v1::LOSS_CAUSE_DEVICE);
  EXPECT_EQ(m.stats().device_fault, 0);
  EXPECT_TRUE(m.close(20'000));
}

TEST_F(OnDevice, AGpuThatFailsCostsItsOwnTensorsOnly) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  DeviceTrainer trainer(server.address());
  trainer.attempt();
  ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  testing::internal::CaptureStderr();
  fake_cuda::fail_all(700);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(trainer.attempt());
  ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  const auto reports = server.reports(6);
  auto last = seen(reports[5]);
  EXPECT_EQ(last.size(), 1U);
  EXPECT_EQ(last[3].sum, 5);
  EXPECT_EQ(reports[5].statistics_lost(), v1::LOSS_CAUSE_DEVICE);
  EXPECT_GT(reports[5].client().device_lost_quiet(), 0U);
  ASSERT_EQ(reports[5].client().device_faults_size(), 2);
  EXPECT_EQ(reports[5].client().device_faults(0).cause(), v1::DEVICE_FAULT_CAUSE_CONTEXT_FAILED);
  EXPECT_EQ(reports[5].client().device_faults(1).device(), 1);
  EXPECT_EQ(trainer.monitor().stats().device_fault, static_cast<int>(v1::DEVICE_FAULT_CAUSE_CONTEXT_FAILED));
  EXPECT_TRUE(trainer.monitor().close(20'000));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("is not measured any more; training goes on (context_failed"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;  // one line a minute
}

// Every call fails once. The trainer is told nothing; what is in host memory arrives in every attempt.
TEST_F(OnDevice, WhateverCallFailsTrainingGoesOn) {
  FakeServer server;
  std::uint64_t calls = 0;
  testing::internal::CaptureStderr();
  const auto train = [&](std::uint64_t failing, int status) {
    fake_cuda::reset();
    fake_cuda::set_automatic(true);
    DeviceTrainer trainer(server.address());
    if (status != 0) fake_cuda::fail_call(failing, status, status == 719);
    bool ok = true;
    for (int i = 0; i < 2; ++i) ok = trainer.attempt() && ok;
    EXPECT_TRUE(ok) << failing;
    EXPECT_TRUE(trainer.monitor().wait_durable(20'000)) << failing;
    const scalewatch_stats stats = trainer.monitor().stats();
    const bool lost = stats.device_lost_quiet + stats.device_lost_late + stats.device_lost_busy != 0;
    EXPECT_TRUE(!lost || stats.device_fault != 0) << failing;
    calls = fake_cuda::call_count();
    EXPECT_TRUE(trainer.monitor().close(20'000)) << failing;
    EXPECT_EQ(fake_cuda::misuse(), std::vector<std::string>()) << failing;
  };
  train(0, 0);  // opens the driver, once in a process: see tests/unit/device/driver_test.cc for what fails there
  train(0, 0);
  const std::uint64_t all = calls;
  const int ways[] = {2, 719, 999};
  for (std::uint64_t number = 0; number < all; ++number) train(number, ways[number % 3]);
  testing::internal::GetCapturedStderr();
}

TEST_F(OnDevice, ResultsThatNeverComeAreGivenUpWhenTheTrainerCloses) {
  FakeServer server;
  DeviceTrainer trainer(server.address());
  trainer.attempt();  // nothing runs
  EXPECT_TRUE(trainer.monitor().close(20'000));
  const auto reports = server.reports(1);
  EXPECT_EQ(reports[0].statistics_lost(), v1::LOSS_CAUSE_DEVICE);
  EXPECT_EQ(seen(reports[0]).size(), 1U);
  EXPECT_GT(reports[0].client().device_lost_late(), 0U);
  fake_cuda::run_all();  // their memory is still there
}

// The GPU falls behind: memory is bounded, what found none is lost and counted, and what was launched arrives all the same.
TEST_F(OnDevice, AGpuThatFallsBehindLosesStatisticsAndNothingElse) {
  FakeServer server;
  DeviceTrainer trainer(server.address());
  constexpr int kAttempts = 40;
  for (int i = 0; i < kAttempts; ++i) EXPECT_TRUE(trainer.attempt());
  EXPECT_GT(trainer.monitor().stats().device_lost_busy, 0U);
  EXPECT_EQ(trainer.monitor().stats().device_fault, 0);
  fake_cuda::set_automatic(true);
  ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  EXPECT_TRUE(trainer.attempt());
  ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  const auto reports = server.reports(kAttempts + 1);
  EXPECT_EQ(seen(reports[0]).size(), 4U);
  EXPECT_EQ(seen(reports[kAttempts - 1]).size(), 1U);
  EXPECT_EQ(reports[kAttempts - 1].statistics_lost(), v1::LOSS_CAUSE_DEVICE);
  EXPECT_EQ(seen(reports[kAttempts]).size(), 4U);  // it caught up
  EXPECT_EQ(reports[kAttempts].statistics_lost(), v1::LOSS_CAUSE_UNSPECIFIED);
  EXPECT_TRUE(trainer.monitor().close(20'000));
}

// Histograms go first: while every record still finds room, those of the third attempt and later do not.
TEST_F(OnDevice, AGpuThatFallsBehindLosesHistogramsFirst) {
  FakeServer server;
  DeviceTrainer trainer(server.address(), 1);
  constexpr std::size_t kAttempts = 5;
  for (std::size_t i = 0; i < kAttempts; ++i) EXPECT_TRUE(trainer.attempt());
  fake_cuda::set_automatic(true);
  ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  EXPECT_EQ(trainer.monitor().stats().device_lost_busy, 0U);
  const auto reports = server.reports(kAttempts);
  for (std::size_t i = 0; i < kAttempts; ++i) {
    EXPECT_EQ(seen(reports[i]).size(), 4U);
    EXPECT_EQ(reports[i].statistics_lost(), v1::LOSS_CAUSE_UNSPECIFIED);
    EXPECT_EQ(histograms_of(reports[i]).size(), i < 2 ? 3U : 0U) << i;
  }
  EXPECT_EQ(trainer.monitor().stats().histograms_lost, 3 * (kAttempts - 2));
  EXPECT_TRUE(trainer.attempt());
  ASSERT_TRUE(trainer.monitor().wait_durable(20'000));
  EXPECT_EQ(histograms_of(server.reports(kAttempts + 1)[kAttempts]).size(), 3U);  // it caught up
  EXPECT_TRUE(trainer.monitor().close(20'000));
}

TEST_F(OnDevice, CallsAreCheckedBeforeAnythingHappens) {
  DeviceTrainer trainer("127.0.0.1:1");
  Monitor& m = trainer.monitor();
  const scalewatch_device gpu{sizeof gpu, 0, nullptr};
  scalewatch_device wrong = gpu;
  wrong.device = 64;
  EXPECT_EQ(scalewatch_observe_device(m.handle(), 0, &wrong, 1, &gpu, nullptr), SCALEWATCH_WRONG_STATE);
  EXPECT_EQ(scalewatch_measure_device(m.handle(), nullptr), SCALEWATCH_WRONG_STATE);
  m.begin_attempt(1);
  EXPECT_EQ(scalewatch_observe_device(m.handle(), 0, &wrong, 1, &wrong, nullptr), SCALEWATCH_INVALID_ARGUMENT);
  EXPECT_EQ(scalewatch_observe_device(m.handle(), 99, &wrong, 1, &gpu, nullptr), SCALEWATCH_INVALID_ARGUMENT);
  EXPECT_EQ(scalewatch_observe_device(m.handle(), 0, nullptr, 1, &gpu, nullptr), SCALEWATCH_INVALID_ARGUMENT);
  scalewatch_device_tensor how{};
  how.size = sizeof how;
  how.scale = -1;
  EXPECT_EQ(scalewatch_observe_device(m.handle(), 0, &wrong, 1, &gpu, &how), SCALEWATCH_INVALID_ARGUMENT);
  const std::uint64_t sizes[] = {2, 3};
  const std::int64_t strides[] = {1, 2};
  how.scale = 1;
  how.ndim = 2;
  how.sizes = sizes;
  how.strides = strides;
  EXPECT_EQ(scalewatch_observe_device(m.handle(), 0, &wrong, 5, &gpu, &how), SCALEWATCH_INVALID_ARGUMENT);
  EXPECT_EQ(scalewatch_observe_optimizer_device(m.handle(), 0, 9, &gpu, nullptr, nullptr, 0), SCALEWATCH_INVALID_ARGUMENT);
  EXPECT_EQ(scalewatch_observe_scaler_device(m.handle(), 0, nullptr, nullptr), SCALEWATCH_INVALID_ARGUMENT);
  m.close(0);
}

}  // namespace
}  // namespace scalewatch::client_test

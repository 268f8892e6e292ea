// A trainer that names GPUs where there is no driver.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"

namespace scalewatch::client_test {
namespace {

TEST(NoGpu, IsToldAndHostTensorsAreMeasured) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "this machine has CUDA's driver";
  FakeServer server;
  MonitorOptions options;
  options.run = "run";
  options.server = server.address();
  {
    Monitor monitor(options);
    const auto host = monitor.add_tensor({"host", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 1, 0, "", "", ""});
    const auto device = monitor.add_tensor({"device", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 1, 0, "", "", ""});
    const float value = 3;
    for (int step = 1; step <= 3; ++step) {
      EXPECT_TRUE(monitor.begin_attempt(step));
      EXPECT_TRUE(monitor.observe(host, &value, 1));
      EXPECT_TRUE(monitor.observe_device(device, &value, 1, {}));
      EXPECT_TRUE(monitor.measure_device());
      EXPECT_TRUE(monitor.end_attempt());
    }
    EXPECT_EQ(monitor.stats().device_fault, static_cast<int>(v1::DEVICE_FAULT_CAUSE_NO_DRIVER));
    EXPECT_EQ(monitor.stats().device_lost_quiet, 3U);
    EXPECT_EQ(monitor.stats().cuda_driver_calls, 0U);
    EXPECT_TRUE(monitor.close(20'000));
  }
  const auto reports = server.reports(3);
  for (const v1::Report& report : reports) {
    ASSERT_EQ(report.blocks_size(), 1);
    EXPECT_EQ(report.blocks(0).sum(0), 3);
    EXPECT_EQ(report.statistics_lost(), v1::LOSS_CAUSE_DEVICE);
    ASSERT_EQ(report.client().device_faults_size(), 1);
    EXPECT_EQ(report.client().device_faults(0).cause(), v1::DEVICE_FAULT_CAUSE_NO_DRIVER);
  }
}

}  // namespace
}  // namespace scalewatch::client_test

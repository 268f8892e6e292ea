// Every call of the driver fails once, in every way: never a crash, never a call after it that is not allowed, and the device
// goes quiet with the right cause.
#include <set>

#include "tests/unit/device/rig.h"

namespace scalewatch::cuda {
namespace {

class Failures : public Rig {
 protected:
  struct Outcome {
    std::uint64_t calls = 0;
    Cause cause = Cause::kNone;
    bool results = false;
  };

  // A replay of a graph; what fails of it is lost.
  static void replay_graph(Measurer& measurer, Stream on, const device::TensorDesc& tensor) {
    const Device::Current current(measurer.device());
    if (!current) return;
    const Work work{{&tensor, 1}, {}, {}};
    fake_cuda::begin_capture(on);
    Graph* graph = nullptr;
    if (measurer.capturing(on) == Measurer::Capture::kYes) {
      graph = measurer.record(on, 1, work.packet_bytes(), work.chunks());
      if (graph != nullptr && !measurer.launch(*graph, work, true)) graph = nullptr;
    }
    fake_cuda::replay(fake_cuda::end_capture(on), on);
    Batch* batch = graph == nullptr ? nullptr : measurer.collect(*graph, on);
    fake_cuda::run_all();
    if (batch == nullptr || batch->poll() != Batch::Ready::kYes) return;
    EXPECT_EQ(batch->take_blocks(), 1U);
    batch->give_back();
  }

  // Two attempts with everything in them, and a graph.
  static Outcome train(const Driver& driver) {
    Outcome outcome;
    const OnGpu data(0, std::vector<float>{1, 2, 3});
    const auto on = static_cast<Stream>(fake_cuda::make_stream(0));
    {
      Measurer measurer(driver, 0);
      for (int attempt = 0; attempt < 2; ++attempt) {
        const Device::Current current(measurer.device());
        if (!current || measurer.device().quiet() || measurer.capturing(on) == Measurer::Capture::kUnknown) break;
        const device::TensorDesc tensor = describe(data, DType::kFp32);
        const device::ScalarSource scalar{data.address(), device::kScalarFloat, 0};
        Work work{{&tensor, 1}, {}, {&scalar, 1}, {&tensor, 1}};
        Batch* batch = measurer.open(on, 2, 2 * work.packet_bytes(), 2);
        const bool histograms = batch != nullptr;
        if (!histograms) {
          work.exponents = {};
          batch = measurer.open(on, 2, work.packet_bytes());
        }
        if (batch == nullptr) break;
        if (measurer.launch_one(*batch, tensor, nullptr)) {
          if (histograms && measurer.count_exponents(*batch, tensor, nullptr)) batch->exponent_tags.push_back(0);
          batch->record_tags.emplace_back();
        }
        if (measurer.launch(*batch, work)) {
          if (histograms) batch->exponent_tags.push_back(1);
          batch->record_tags.emplace_back();
        }
        if (measurer.device().quiet() || !measurer.send(*batch)) break;
        fake_cuda::run_all();
        outcome.results = batch->poll() == Batch::Ready::kYes && attempt == 1;
        if (outcome.results) batch->take_blocks();
        batch->give_back();
      }
      if (outcome.results) replay_graph(measurer, on, describe(data, DType::kFp32));
      outcome.cause = measurer.device().cause();
      outcome.calls = fake_cuda::call_count();
    }
    fake_cuda::run_all();
    return outcome;
  }
};

TEST_F(Failures, OfAnyCallMakeTheDeviceQuiet) {
  static_cast<void>(train(driver_));  // what a thread calls once, it calls here
  fake_cuda::reset();
  const Outcome clean = train(open_driver("libcuda.so.1"));
  ASSERT_EQ(clean.cause, Cause::kNone);
  ASSERT_TRUE(clean.results);
  ASSERT_EQ(fake_cuda::misuse(), std::vector<std::string>());
  const std::uint64_t opening = 2;  // cuDriverGetVersion, cuInit: see driver_test
  const std::pair<int, Cause> ways[] = {{2, Cause::kOutOfMemory}, {700, Cause::kContextFailed}, {999, Cause::kDriverError}};
  std::set<std::string> failed;
  for (std::uint64_t number = opening; number < clean.calls; ++number) {
    for (const auto& [status, cause] : ways) {
      fake_cuda::reset();
      const Driver driver = open_driver("libcuda.so.1");
      fake_cuda::fail_call(number, status, status == 700);
      const Outcome outcome = train(driver);
      const auto calls = fake_cuda::calls();
      ASSERT_GT(calls.size(), number);
      const std::string name = calls[number].name;
      failed.insert(name);
      const std::string what = name + " (call " + std::to_string(number) + ") fails with " + std::to_string(status);
      EXPECT_EQ(fake_cuda::misuse(), std::vector<std::string>()) << what;
      // Nothing is launched once it failed; elapsed times and the client thread's own context are not worth a fault.
      if (outcome.cause == Cause::kNone) {
        EXPECT_TRUE(outcome.results) << what;
      } else {
        EXPECT_EQ(outcome.cause, cause) << what;
      }
      EXPECT_TRUE(status != 700 || outcome.cause != Cause::kNone) << what;
    }
  }
  for (const char* name : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuLaunchKernel", "cuEventQuery", "cuModuleLoadData",
                           "cuEventRecord", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuDevicePrimaryCtxRetain",
                           "cuMemsetD8Async", "cuThreadExchangeStreamCaptureMode"}) {
    EXPECT_TRUE(failed.contains(name)) << name;
  }
}

TEST_F(Failures, OfACaptureCostItsResultsOnly) {
  Measurer measurer(driver_, 0);
  const Stream on = stream();
  const Device::Current current(measurer.device());
  fake_cuda::fail_next("cuStreamIsCapturing", 906);
  EXPECT_EQ(measurer.capturing(on), Measurer::Capture::kUnknown);
  EXPECT_FALSE(measurer.device().quiet());
  EXPECT_EQ(measurer.capturing(on), Measurer::Capture::kNo);
}

TEST_F(Failures, OfMemoryComeBeforeAnyLaunch) {
  Measurer measurer(driver_, 0);
  fake_cuda::set_memory_limit(1000);
  const Device::Current current(measurer.device());
  EXPECT_EQ(measurer.open(stream(), 1000, 100'000), nullptr);
  EXPECT_EQ(measurer.device().cause(), Cause::kOutOfMemory);
  char detail[256] = "";
  measurer.device().describe_fault(detail, sizeof detail);
  EXPECT_EQ(std::string(detail), "out_of_memory: CUDA_ERROR_OUT_OF_MEMORY");
}

}  // namespace
}  // namespace scalewatch::cuda

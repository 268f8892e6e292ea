// Launches: what they measure, what they cost in calls and memory, and that nothing waits.
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/unit/device/rig.h"

namespace scalewatch::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Launches : public Rig {
 protected:
  // Adds the tags that a caller adds.
  static bool launch(Measurer& measurer, Batch& batch, const Work& work) {
    if (!measurer.launch(batch, work)) return false;
    batch.record_tags.resize(batch.record_tags.size() + work.tensors.size());
    batch.scalar_tags.resize(batch.scalar_tags.size() + work.scalars.size());
    for (std::size_t i = 0; i < work.exponents.size(); ++i) batch.exponent_tags.push_back(0);
    return true;
  }
};

TEST_F(Launches, MeasureAllTensorsAndGatherScalars) {
  Measurer measurer(driver_, 0);
  ASSERT_FALSE(measurer.device().quiet());
  const Device::Current current(measurer.device());
  std::vector<float> long_one(70'000);
  std::iota(long_one.begin(), long_one.end(), -35'000.0F);
  long_one[69'999] = kNan;
  const OnGpu a(0, std::vector<float>{1, -2, 0, kInf, 1e-6F}), b(0, long_one), empty(0, std::vector<float>{});
  const OnGpu half(0, std::vector<std::uint16_t>{0x3C00, 0x7C00, 0xFC00, 0x0001, 0x8000});
  const OnGpu scale(0, std::vector<float>{65536}), tracker(0, std::vector<std::int32_t>{7});
  const device::TensorDesc tensors[] = {describe(a, DType::kFp32), describe(b, DType::kFp32, DType::kFp16, scale.address()),
                                        describe(empty, DType::kFp32), describe(half, DType::kFp16)};
  const device::ScalarSource scalars[] = {
      {scale.address(), device::kScalarFloat, 0}, {tracker.address(), device::kScalarInt32, 0}, {0, device::kScalarFloat, 0}};
  Batch* batch = measurer.open(stream(), 5, 2 * Work{tensors, {}, scalars}.packet_bytes());
  ASSERT_NE(batch, nullptr);
  ASSERT_TRUE(launch(measurer, *batch, {tensors, {}, scalars}));
  ASSERT_TRUE(launch(measurer, *batch, {{}, {}, {scalars, 1}}));  // again, later
  ASSERT_TRUE(launch(measurer, *batch, {{tensors, 1}, {}, {}}));
  ASSERT_TRUE(measurer.send(*batch));

  EXPECT_EQ(batch->poll(), Batch::Ready::kNotYet);  // the stream has not come so far
  fake_cuda::run_all();
  ASSERT_EQ(batch->poll(), Batch::Ready::kYes);
  ASSERT_EQ(batch->take_blocks(), 1U);
  expect_same(batch->record(0, 0), a, DType::kFp32);
  expect_same(batch->record(0, 1), b, DType::kFp32, DType::kFp16, 65536);
  expect_same(batch->record(0, 2), empty, DType::kFp32);
  expect_same(batch->record(0, 3), half, DType::kFp16);
  expect_same(batch->record(0, 4), a, DType::kFp32);
  EXPECT_EQ(batch->scalar(0, 0), 65536);
  EXPECT_EQ(batch->scalar(0, 1), 7);
  EXPECT_TRUE(std::isnan(batch->scalar(0, 2)));
  EXPECT_EQ(batch->scalar(0, 3), 65536);
  expect_no_waiting();
}

TEST_F(Launches, CountExponentsOfSomeOfTheTensors) {
  Measurer measurer(driver_, 0);
  const Device::Current current(measurer.device());
  std::vector<float> long_one(40'000);
  std::iota(long_one.begin(), long_one.end(), -20'000.0F);
  const OnGpu a(0, long_one), b(0, std::vector<std::uint16_t>{0x3C00, 0x0001, 0x7C00, 0}), c(0, std::vector<float>{1});
  const device::TensorDesc tensors[] = {describe(c, DType::kFp32), describe(a, DType::kFp32), describe(b, DType::kFp16)};
  const Work work{tensors, {}, {}, {tensors + 1, 2}};
  const auto expect_exponents = [](const Batch& batch, std::size_t index, const OnGpu& data, DType dtype) {
    ExponentCounts got;
    ExponentCounts want;
    batch.add_exponents(index, got);
    measure_exponents(data.as<void>(), dtype, data.numel(), want);
    EXPECT_EQ(got.counts, want.counts) << index;
  };
  for (int attempt = 0; attempt < 3; ++attempt) {  // in memory that was used before
    Batch* batch = measurer.open(stream(), 5, 2 * work.packet_bytes() + 256, 4);
    ASSERT_NE(batch, nullptr);
    ASSERT_TRUE(Measurer::has_room(*batch, 3, 0, work.packet_bytes(), batch->exponent_room));
    EXPECT_FALSE(Measurer::has_room(*batch, 3, 0, work.packet_bytes(), batch->exponent_room + 1));
    ASSERT_TRUE(launch(measurer, *batch, work));
    device::StridedDesc shape{{20'000}, {2}, 1, 0};
    device::TensorDesc every_other = tensors[1];
    every_other.numel = 20'000;
    ASSERT_TRUE(measurer.launch_one(*batch, every_other, &shape));
    ASSERT_TRUE(measurer.count_exponents(*batch, every_other, &shape));
    batch->exponent_tags.push_back(static_cast<std::uint32_t>(batch->record_tags.size()));
    batch->record_tags.emplace_back();
    ASSERT_TRUE(launch(measurer, *batch, {{tensors, 1}, {}, {}, {tensors, 1}}));
    ASSERT_TRUE(measurer.send(*batch));
    fake_cuda::run_all();
    ASSERT_EQ(batch->poll(), Batch::Ready::kYes);
    ASSERT_EQ(batch->take_blocks(), 1U);
    ASSERT_EQ(batch->exponents(), 4U);
    expect_exponents(*batch, 0, a, DType::kFp32);
    expect_exponents(*batch, 1, b, DType::kFp16);
    expect_exponents(*batch, 3, c, DType::kFp32);
    ExponentCounts strided;
    batch->add_exponents(2, strided);
    ExponentCounts want;
    measure_exponents({a.as<void>(), DType::kFp32, 1, {20'000}, {2}}, want);
    EXPECT_EQ(strided.counts, want.counts);
    expect_same(batch->record(0, 1), a, DType::kFp32);
    batch->give_back();
  }
  expect_no_waiting();
}

TEST_F(Launches, ATransientTensorIsMeasuredBeforeItChanges) {
  Measurer measurer(driver_, 0);
  const Device::Current current(measurer.device());
  const OnGpu data(0, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Stream on = stream();
  Batch* batch = measurer.open(on, 2, 0);
  ASSERT_NE(batch, nullptr);
  fake_cuda::forget_calls();
  ASSERT_TRUE(measurer.launch_one(*batch, describe(data, DType::kFp32), nullptr));
  batch->record_tags.emplace_back();
  device::StridedDesc shape{{3}, {2}, 1, 0};  // every other one
  device::TensorDesc every_other = describe(data, DType::kFp32);
  every_other.numel = 3;
  ASSERT_TRUE(measurer.launch_one(*batch, every_other, &shape));
  batch->record_tags.emplace_back();
  fake_cuda::enqueue(on, [&] { data.as<float>()[0] = kInf; });  // what follows on the stream
  ASSERT_TRUE(measurer.send(*batch));
  fake_cuda::run_all();
  ASSERT_EQ(batch->poll(), Batch::Ready::kYes);
  batch->take_blocks();
  EXPECT_EQ(batch->record(0, 0).sum, 21);
  EXPECT_EQ(batch->record(0, 1).sum, 9);
  EXPECT_EQ(batch->record(0, 0).pos_inf, 0U);
}

TEST_F(Launches, OfAnAttemptCallTheDriverSixTimesAndAllocateNothing) {
  Measurer measurer(driver_, 0);
  const OnGpu a(0, std::vector<float>(100, 1)), b(0, std::vector<float>(50'000, 2));
  const device::TensorDesc tensors[] = {describe(a, DType::kFp32), describe(b, DType::kFp32)};
  const Stream on = stream();
  std::size_t allocations = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    fake_cuda::forget_calls();
    const Device::Current current(measurer.device());
    ASSERT_EQ(measurer.capturing(on), Measurer::Capture::kNo);
    Batch* batch = measurer.open(on, 2, Work{tensors, {}, {}}.packet_bytes());
    ASSERT_NE(batch, nullptr);
    ASSERT_TRUE(launch(measurer, *batch, {tensors, {}, {}}));
    ASSERT_TRUE(measurer.send(*batch));
    batch->state.store(Batch::State::kSent);
    if (attempt == 0) allocations = fake_cuda::allocations();
    EXPECT_EQ(fake_cuda::allocations(), allocations);
    auto calls = names(fake_cuda::calls());
    std::erase(calls, "cuEventRecord");  // one in 17 launches has its time taken
    if (attempt > 0) {
      EXPECT_EQ(calls, (std::vector<std::string>{"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuStreamIsCapturing",
                                                 "cuLaunchKernel", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2"}));
    }
    fake_cuda::run_all();
    ASSERT_EQ(batch->poll(), Batch::Ready::kYes);
    batch->take_blocks();
    expect_same(batch->record(0, 1), b, DType::kFp32);
    EXPECT_EQ(batch->timed, attempt == 16);
    batch->give_back();
  }
}

TEST_F(Launches, UploadOnlyWhatChanged) {
  Measurer measurer(driver_, 0);
  const Device::Current current(measurer.device());
  const OnGpu a(0, std::vector<float>{1}), b(0, std::vector<float>{2}), other(0, std::vector<float>{3});
  std::vector<device::TensorDesc> tensors = {describe(a, DType::kFp32), describe(b, DType::kFp32)};
  const Stream on = stream();
  const auto uploads = [&] {
    fake_cuda::forget_calls();
    Batch* batch = measurer.open(on, 2, Work{tensors, {}, {}}.packet_bytes());
    EXPECT_TRUE(launch(measurer, *batch, {tensors, {}, {}}) && measurer.send(*batch));
    fake_cuda::run_all();
    EXPECT_EQ(batch->poll(), Batch::Ready::kYes);
    batch->take_blocks();
    const double sum = batch->record(0, 0).sum + batch->record(0, 1).sum;
    batch->give_back();
    const auto calls = names(fake_cuda::calls());
    return std::pair(std::count(calls.begin(), calls.end(), "cuMemcpyHtoDAsync_v2"), sum);
  };
  EXPECT_EQ(uploads(), std::pair(std::ptrdiff_t{1}, 3.0));
  EXPECT_EQ(uploads(), std::pair(std::ptrdiff_t{0}, 3.0));
  tensors[1].data = other.address();
  EXPECT_EQ(uploads(), std::pair(std::ptrdiff_t{1}, 4.0));
  EXPECT_EQ(uploads(), std::pair(std::ptrdiff_t{0}, 4.0));
}

TEST_F(Launches, NeverOverwriteWhatIsStillToBeRead) {
  Measurer measurer(driver_, 0);
  const Device::Current current(measurer.device());
  const Stream on = stream();
  std::vector<std::unique_ptr<OnGpu>> data;
  std::vector<Batch*> batches;
  for (int i = 0; i < 100; ++i) {  // nothing runs meanwhile
    data.push_back(std::make_unique<OnGpu>(0, std::vector<float>{static_cast<float>(i)}));
    const device::TensorDesc tensor = describe(*data.back(), DType::kFp32);
    Batch* batch = measurer.open(on, 1, Work{{&tensor, 1}, {}, {}}.packet_bytes());
    if (batch == nullptr) break;
    ASSERT_TRUE(launch(measurer, *batch, {{&tensor, 1}, {}, {}}) && measurer.send(*batch));
    batches.push_back(batch);
  }
  EXPECT_GE(batches.size(), 3U);
  EXPECT_LT(batches.size(), 100U);  // bounded
  EXPECT_FALSE(measurer.device().quiet());
  fake_cuda::run_all();
  for (std::size_t i = 0; i < batches.size(); ++i) {
    ASSERT_EQ(batches[i]->poll(), Batch::Ready::kYes);
    batches[i]->take_blocks();
    EXPECT_EQ(batches[i]->record(0, 0).max, static_cast<float>(i));
    batches[i]->abandon();
  }
  EXPECT_NE(measurer.open(on, 1, 0), nullptr);  // one that was abandoned is used again once it is done
}

TEST_F(Launches, OnTwoGpusUnderOneAnothersContext) {
  fake_cuda::set_devices({{8, 0}, {9, 0}});
  driver_ = open_driver("libcuda.so.1");
  Measurer first(driver_, 0), second(driver_, 1);
  const OnGpu a(0, std::vector<float>{1, 2}), b(1, std::vector<float>{3, 4});
  const Stream streams[] = {stream(0), stream(1)};
  fake_cuda::make_current(0);
  Batch* batches[2];
  for (int i = 1; i >= 0; --i) {
    Measurer& measurer = i == 0 ? first : second;
    const Device::Current current(measurer.device());
    const device::TensorDesc tensor = describe(i == 0 ? a : b, DType::kFp32);
    batches[i] = measurer.open(streams[i], 1, Work{{&tensor, 1}, {}, {}}.packet_bytes());
    ASSERT_TRUE(launch(measurer, *batches[i], {{&tensor, 1}, {}, {}}) && measurer.send(*batches[i]));
  }
  fake_cuda::run(streams[0]);
  EXPECT_EQ(batches[1]->poll(), Batch::Ready::kNotYet);
  ASSERT_EQ(batches[0]->poll(), Batch::Ready::kYes);
  fake_cuda::run(streams[1]);
  ASSERT_EQ(batches[1]->poll(), Batch::Ready::kYes);
  EXPECT_EQ(batches[0]->record(0, 0).sum, 3);
  EXPECT_EQ(batches[1]->record(0, 0).sum, 7);
}

TEST_F(Launches, OnEachStreamHaveScratchOfTheirOwnThatGrows) {
  Device gpu(driver_, 0);
  Memory memory(gpu);
  Scratches scratches(gpu, memory);
  const Device::Current current(gpu);
  const Stream first = stream();
  const Scratch* small = scratches.of(first, 10, 0);
  ASSERT_NE(small, nullptr);
  const DevicePointer partials = small->partials;
  EXPECT_EQ(scratches.of(first, 10, 0)->partials, partials);
  const Scratch* large = scratches.of(first, 5000, 0);
  ASSERT_NE(large, nullptr);
  EXPECT_GE(large->chunks, 5000U);
  EXPECT_NE(large->partials, partials);
  EXPECT_NE(scratches.of(stream(), 10, 0)->partials, large->partials);
  for (std::size_t i = 2; i < Scratches::kMost; ++i) EXPECT_NE(scratches.of(stream(), 1, 0), nullptr);
  EXPECT_EQ(scratches.of(stream(), 1, 0), nullptr);  // bounded
  EXPECT_FALSE(gpu.quiet());
  fake_cuda::run_all();
}

TEST_F(Launches, FreeEverythingAtTheEnd) {
  const Stream on = stream();
  const OnGpu data(0, std::vector<float>(10));
  const std::size_t before = fake_cuda::allocations();
  {
    Measurer measurer(driver_, 0);
    const Device::Current current(measurer.device());
    const device::TensorDesc tensor = describe(data, DType::kFp32);
    Batch* batch = measurer.open(on, 1, Work{{&tensor, 1}, {}, {}}.packet_bytes());
    ASSERT_TRUE(launch(measurer, *batch, {{&tensor, 1}, {}, {}}) && measurer.send(*batch));
    batch->state.store(Batch::State::kSent);
    fake_cuda::run_all();
  }
  EXPECT_EQ(fake_cuda::allocations(), before);
}

}  // namespace
}  // namespace scalewatch::cuda

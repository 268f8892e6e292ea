// Launches: any grid and order give the same bits; many tensors at once, one alone, none; rings, scalars, histograms, and
// tensors too large to run whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "cuda/cpu/measure.h"
#include "tests/simt/suite/attempt.h"
#include "tests/simt/suite/data.h"
#include "tests/simt/suite/ways.h"

namespace simt {
namespace {

namespace device = scalewatch::device;

// Thousands of tiny tensors among a few great ones, every type, some empty, some of no type.
std::vector<Tensor> mixed_list(int count) {
  std::vector<Tensor> tensors;
  std::mt19937 random(12);
  for (int i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.dtype = kDTypes[random() % 6];
    const std::uint64_t numel = i % 97 == 5 ? 40'000 + random() % 60'000 : random() % 50;
    tensor.offset = random() % 16;
    tensor.target = kDTypes[random() % 6];
    tensor.bytes = i % 5 == 0 ? wild_bytes(tensor.dtype, numel, random()) : normal_bytes(tensor.dtype, numel, 0.01, random());
    if (i % 41 == 7) {
      tensor.bytes.clear();
      tensor.null = i % 2 == 0;
    } else if (i % 43 == 8) {
      tensor.dtype = DType::kUnspecified;
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

TEST(Launches, ThousandsOfTensorsAtOnce) {
  const Attempt attempt(mixed_list(1500));
  attempt.check(attempt.measure());
}

// Around the 32 probes of the search for a chunk's tensor.
TEST(QuickLaunches, AsManyTensorsAsASearchMustTell) {
  for (const int count : {1, 32, 33, 66}) {
    std::vector<Tensor> tensors(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (i % 7 == 3) continue;  // empty
      tensors[i].bytes = normal_bytes(DType::kFp32, 1, 1, static_cast<unsigned>(i));
      tensors[i].scale = i % 2 == 0 ? 1 : 0x1p20;
    }
    const Attempt attempt(tensors);
    Way way = shuffled(static_cast<std::uint64_t>(count), 7, 2);
    way.grid = count % 2 == 0 ? 1 : 0;  // one block meets every change of tensors
    attempt.check(attempt.measure(way));
    if (HasFailure()) return;
  }
}

TEST(Launches, SameBitsForEveryGridOrderAndPoison) {
  const Attempt attempt(mixed_list(120));
  const Outcome first = attempt.measure();
  attempt.check(first);
  std::vector<Way> ways{reversed(1), reversed(64)};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    ways.push_back(shuffled(seed, static_cast<unsigned>(1 + seed * seed), static_cast<unsigned>(1 + seed % 4)));
  }
  for (const Way& way : ways) {
    const Outcome other = attempt.measure(way);
    ASSERT_EQ(other.fault, "");
    EXPECT_EQ(other.bits, first.bits) << "seed " << way.options.seed;
  }
}

TEST(QuickLaunches, OneTensorOfSeveralChunks) {
  Tensor tensor;
  tensor.bytes = normal_bytes(tensor.dtype, 5 * chunk_of(tensor.dtype) + 3);
  const Attempt attempt({tensor});
  for (const Way& way : {Way{}, shuffled(1, 2, 3), shuffled(2, 2, 1)}) {
    const Outcome outcome = attempt.measure_one(0, way);
    ASSERT_EQ(outcome.fault, "");
    check_record(outcome.records[0], tensor, attempt.expected(0));
  }
}

TEST(Launches, OneTensorAlone) {
  std::vector<Tensor> tensors;
  for (const DType dtype : kDTypes) {
    for (const std::uint64_t numel : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{777}, 40 * chunk_of(dtype) + 3}) {
      Tensor tensor;
      tensor.dtype = dtype;
      tensor.offset = scalewatch::element_size(dtype);
      tensor.bytes = normal_bytes(dtype, numel, 1, 2);
      tensor.scale_in_memory = true;
      tensor.scale = 512;
      tensors.push_back(tensor);
    }
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.bytes = wild_bytes(dtype, 300 * 200);
    tensor.sizes = {200, 100};
    tensor.strides = {-1, 400};
    tensor.first = 300;
    tensor.name = "strided";
    tensors.push_back(tensor);
  }
  tensors.emplace_back();
  tensors.back().dtype = DType::kUnspecified;
  tensors.back().bytes.resize(8);
  const Attempt attempt(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Outcome first = attempt.measure_one(i);
    ASSERT_EQ(first.fault, "");
    ASSERT_EQ(first.records.size(), 1U);
    check_record(first.records[0], tensors[i], attempt.expected(i));
    const Outcome other = attempt.measure_one(i, shuffled(i, 11, static_cast<unsigned>(1 + i % 5)));
    ASSERT_EQ(other.fault, "");
    EXPECT_EQ(other.bits, first.bits) << i;
    if (HasFailure()) return;
  }
}

TEST(Launches, ManyChunksOfOneTensorAreMergedByABlock) {
  std::vector<Tensor> tensors;
  for (const std::uint64_t chunks : {31U, 32U, 33U, 300U}) {
    Tensor tensor;
    tensor.dtype = DType::kFp64;  // the shortest chunks
    tensor.bytes = normal_bytes(tensor.dtype, chunks * chunk_of(tensor.dtype) - 5, 1, chunks);
    put(tensor.bytes, tensor.dtype, (chunks - 1) * chunk_of(tensor.dtype), nan_of(tensor.dtype));
    tensors.push_back(tensor);
  }
  const Attempt attempt(tensors);
  const Outcome first = attempt.measure();
  attempt.check(first);
  const Outcome other = attempt.measure(shuffled(5, 7, 4));
  EXPECT_EQ(other.fault, "");
  EXPECT_EQ(other.bits, first.bits);
}

TEST(Launches, NoTensorsAtAll) {
  const Attempt attempt({});
  Way way;
  way.scalars = {{device::kScalarFloat, std::bit_cast<std::uint32_t>(65536.0F)}};
  const Outcome outcome = attempt.measure(way);
  ASSERT_EQ(outcome.fault, "");
  EXPECT_EQ(outcome.header.records, 0U);
  EXPECT_EQ(outcome.scalars, std::vector<double>{65536});
}

// The scalars of a PyTorch scaler and all other kinds, in any order of indices.
std::vector<Scalar> scalars() {
  return {{device::kScalarFloat, std::bit_cast<std::uint32_t>(1024.5F), false, 2},
          {device::kScalarDouble, std::bit_cast<std::uint64_t>(-0.1), false, 0},
          {device::kScalarInt32, 0xFFFFFFF9U, false, 1},
          {device::kScalarInt64, 1'999'999'999'999U, false, 4},
          {device::kScalarFloat, 0, true, 3},
          {77, 5, false, 5}};
}

void expect_scalars(const Outcome& outcome) {
  ASSERT_EQ(outcome.fault, "");
  ASSERT_EQ(outcome.scalars.size(), 6U);
  EXPECT_EQ(outcome.scalars[0], -0.1);
  EXPECT_EQ(outcome.scalars[1], -7);
  EXPECT_EQ(outcome.scalars[2], 1024.5);
  EXPECT_TRUE(std::isnan(outcome.scalars[3]));
  EXPECT_EQ(outcome.scalars[4], 1'999'999'999'999.0);
  EXPECT_TRUE(std::isnan(outcome.scalars[5]));
}

TEST(QuickLaunches, RingSlotsFollowTheDevicesCounter) {
  const Attempt attempt(mixed_list(30));
  const Outcome plain = attempt.measure();
  EXPECT_EQ(plain.header.sequence, 0U);
  EXPECT_EQ(plain.header.version, device::kAbiVersion);
  for (const std::int64_t counter : {0LL, 1LL, 5LL, 0x1'0000'0002LL}) {
    Way way = shuffled(static_cast<std::uint64_t>(counter), 5, 3);
    way.slots = 3;
    way.counter = counter;
    way.scalars = scalars();
    way.first_record = static_cast<unsigned>(counter % 4);
    const Outcome outcome = attempt.measure(way);
    attempt.check(outcome);
    expect_scalars(outcome);
    EXPECT_EQ(outcome.header.sequence, static_cast<std::uint64_t>(counter));
    EXPECT_EQ(outcome.header.version, device::kAbiVersion);
    EXPECT_EQ(outcome.header.records, 30U);
    EXPECT_EQ(outcome.counter_after, static_cast<std::uint64_t>(counter) + 1);
    // A single tensor goes to the same slot and leaves the counter as it is.
    way.scalars.clear();
    const Outcome one = attempt.measure_one(6, way);
    ASSERT_EQ(one.fault, "");
    check_record(one.records.at(0), attempt.tensors()[6], attempt.expected(6));
    EXPECT_EQ(one.counter_after, static_cast<std::uint64_t>(counter));
  }
}

TEST(QuickLaunches, ScalarsAlone) {
  Way way = shuffled(1, 1, 1);
  way.slots = 4;
  way.counter = 6;
  way.scalars = scalars();
  const Outcome kept = gather(way, false);
  expect_scalars(kept);
  EXPECT_EQ(kept.counter_after, 6U);
  EXPECT_EQ(gather(way, true).counter_after, 7U);
  way.counter = -1;
  expect_scalars(gather(way, true));
  way.scalars.clear();
  for (std::uint32_t i = 0; i < device::kMaxScalars; ++i) {
    way.scalars.push_back({device::kScalarInt32, i, false, device::kMaxScalars - 1 - i});
  }
  const Outcome many = gather(way, false);
  ASSERT_EQ(many.fault, "");
  for (std::uint32_t i = 0; i < device::kMaxScalars; ++i) EXPECT_EQ(many.scalars[i], device::kMaxScalars - 1 - i);
}

TEST(QuickLaunches, ExponentsFallIntoTheirOctave) {
  std::vector<Tensor> tensors = mixed_list(40);
  for (const DType dtype : kDTypes) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.bytes = scalewatch::cpu_test::pack(dtype, corner_patterns(dtype));
    tensors.push_back(tensor);
    tensor.sizes = {8, 5, 3};
    tensor.strides = {1, 20, -1};
    tensor.first = 10;
    tensors.push_back(tensor);
  }
  const Attempt attempt(tensors);
  for (const Way& way : {Way{}, shuffled(4, 13, 2)}) {
    std::string fault;
    const std::vector<std::uint64_t> got = attempt.exponents(way, &fault);
    ASSERT_EQ(fault, "");
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      scalewatch::ExponentCounts want;
      const Bytes elements = tensors[i].elements();
      scalewatch::measure_exponents(elements.data(), tensors[i].dtype, tensors[i].numel(), want);
      const auto from = got.begin() + static_cast<std::ptrdiff_t>(i * device::kExponentBins);
      EXPECT_TRUE(std::equal(want.counts.begin(), want.counts.end(), from)) << i;
    }
  }
}

// 2^33 elements, mostly zeros that lie in no memory; the blocks of the first, a middle and the last chunk run.
TEST(QuickLaunches, IndicesBeyond32Bits) {
  constexpr std::uint64_t kNumel = device::kMaxNumel;
  auto* const data = static_cast<std::byte*>(allocate_sparse(kNumel + 1));
  device::TensorDesc tensor{};
  tensor.data = reinterpret_cast<device::U64>(data + 1);
  tensor.numel = kNumel;
  tensor.scale = 1;
  tensor.dtype = device::kE5m2;
  tensor.target = device::kFp16;
  tensor.chunk_shift = device::chunk_shift(tensor.dtype, kNumel);
  const std::uint64_t chunks = device::chunk_count(tensor);
  data[1 + (chunks / 2 << tensor.chunk_shift)] = std::byte{0x3C};  // 1
  data[kNumel] = std::byte{0xC0};                                  // -2, the last one
  DeviceMemory tensors(sizeof tensor, 16);
  tensors.fill(&tensor);
  const std::uint64_t bounds[] = {0, chunks};
  DeviceMemory first_chunk(sizeof bounds, 16);
  first_chunk.fill(bounds);
  DeviceMemory partials(chunks * sizeof(device::Partial), 16);
  device::MeasureParams params{reinterpret_cast<device::U64>(tensors.data()),
                               reinterpret_cast<device::U64>(first_chunk.data()),
                               0,
                               reinterpret_cast<device::U64>(partials.data()),
                               1,
                               0};
  void* arguments[] = {&params};
  Options options;
  options.only_blocks = {0, chunks / 2, chunks - 1};
  const device::U32 grid = device::measure_grid(chunks, 1U << 20);
  ASSERT_EQ(grid, chunks);
  EXPECT_EQ(launch(kernel(device::kMeasureName), {grid}, {device::kThreads}, 0, arguments, options).fault, "");
  const auto* const got = partials.as<device::Partial>();
  const device::U32 size = 1U << tensor.chunk_shift;
  EXPECT_EQ(got[0].zero, size);
  EXPECT_EQ(got[chunks / 2].zero, size - 1);
  EXPECT_EQ(got[chunks / 2].sum, 1);
  EXPECT_EQ(got[chunks / 2].max, 1);
  EXPECT_EQ(got[chunks - 1].zero, size - 1);
  EXPECT_EQ(got[chunks - 1].sum, -2);
  EXPECT_EQ(got[chunks - 1].sum_sq, 4);
  release(data);
}

// Elements 6 GiB apart, in both directions.
TEST(QuickLaunches, StridesBeyond32Bits) {
  constexpr std::int64_t kStride = 3LL << 30;
  auto* const data = static_cast<std::byte*>(allocate_sparse(3 * kStride * 2));
  auto* const values = reinterpret_cast<std::uint16_t*>(data);
  values[0] = 0x3F80;            // 1 as bf16
  values[kStride] = 0x4000;      // 2
  values[2 * kStride] = 0x4080;  // 4
  for (const std::int64_t stride : {kStride, -kStride}) {
    device::MeasureOneParams params{};
    params.tensor.data = reinterpret_cast<device::U64>(stride > 0 ? values : values + 2 * kStride);
    params.tensor.numel = 3;
    params.tensor.scale = 1;
    params.tensor.strided = 1;
    params.tensor.dtype = device::kBf16;
    params.tensor.chunk_shift = device::chunk_shift(device::kBf16, 3);
    params.shape.dims = 1;
    params.shape.sizes[0] = 3;
    params.shape.strides[0] = stride;
    DeviceMemory partial(sizeof(device::Partial), 16);
    DeviceMemory ticket(4, 4);
    *ticket.as<std::uint32_t>() = 0;
    DeviceMemory results(device::result_block_bytes(0, 1), 16);
    params.partials = reinterpret_cast<device::U64>(partial.data());
    params.ticket = reinterpret_cast<device::U64>(ticket.data());
    params.results = {reinterpret_cast<device::U64>(results.data()), results.size(), device::records_offset(0), 0, 1, 0};
    void* arguments[] = {&params};
    EXPECT_EQ(launch(kernel(device::kMeasureOneName), {1}, {device::kThreads}, 0, arguments).fault, "");
    const auto* const record = reinterpret_cast<const device::DeviceRecord*>(results.data() + device::records_offset(0));
    EXPECT_EQ(record->sum, 7);
    EXPECT_EQ(record->min, 1);
    EXPECT_EQ(record->max, 4);
  }
  release(data);
}

}  // namespace
}  // namespace simt

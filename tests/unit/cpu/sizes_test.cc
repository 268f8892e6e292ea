// Sizes around every vector width and block, odd addresses, bad values at every position, nothing at all.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "cuda/cpu/measure.h"
#include "cuda/record/merge.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

class Sizes : public OnEachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Cpu, Sizes, ::testing::ValuesIn(instruction_sets()), name_of_target);

// Uniform patterns: every magnitude, and NaN and infinities where asked for.
Bytes random_bytes(DType dtype, std::uint64_t numel, bool non_finite, unsigned seed) {
  std::mt19937_64 random(seed);
  Bytes bytes;
  while (bytes.size() < numel * size_of(dtype)) {
    const std::uint64_t pattern = random();
    std::uint64_t kept = 0;
    std::memcpy(&kept, &pattern, size_of(dtype));
    if (non_finite || std::isfinite(value_of(dtype, kept))) append(bytes, dtype, kept);
  }
  return bytes;
}

std::uint64_t nan_of(DType dtype) {
  return (std::uint64_t{1} << (8 * size_of(dtype) - 1)) - 1;
}

TEST_P(Sizes, EverySizeAroundTheVectorsAtOddAddresses) {
  // 64 elements is the widest vector of the narrowest type; four of them and three more, and sizes around groups and blocks.
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 0; size <= 4 * 64 + 3; ++size) sizes.push_back(size);
  for (const std::uint64_t around : {512, 2048, 4096}) {
    for (std::uint64_t size = around - 2; size <= around + 2; ++size) sizes.push_back(size);
  }
  for (const DType dtype : kDTypes) {
    for (const bool non_finite : {false, true}) {
      const Bytes source = random_bytes(dtype, 4100, non_finite, 1);
      for (const std::uint64_t size : sizes) {
        const std::size_t offset = 1 + size % 7;
        Bytes moved(offset + size * size_of(dtype));  // ends with the last element: a sanitizer sees a read beyond
        std::memcpy(moved.data() + offset, source.data(), size * size_of(dtype));
        const unsigned char* data = moved.data() + offset;
        const Reference want = reference(data, dtype, size, DType::kFp16, 0.5);
        expect_matches(measure(data, dtype, size, DType::kFp16, 0.5), want, name_of(dtype) + " x " + std::to_string(size));
      }
    }
  }
}

TEST_P(Sizes, OneBadElementAtEveryPosition) {
  constexpr std::uint64_t kNumel = 256 + 64 + 3;  // a group and a tail
  for (const DType dtype : kDTypes) {
    const Bytes clean = random_bytes(dtype, kNumel, false, 2);
    std::vector<std::uint64_t> bad{nan_of(dtype), nan_of(dtype) ^ (std::uint64_t{1} << (8 * size_of(dtype) - 1))};
    if (dtype != DType::kE4m3fn) {
      const std::uint64_t infinity = pattern_of(dtype, std::numeric_limits<long double>::infinity());
      bad.insert(bad.end(), {infinity, infinity | (std::uint64_t{1} << (8 * size_of(dtype) - 1))});
    }
    for (const std::uint64_t pattern : bad) {
      for (std::uint64_t at = 0; at < kNumel; ++at) {
        Bytes bytes = clean;
        std::memcpy(bytes.data() + at * size_of(dtype), &pattern, size_of(dtype));
        const Reference want = reference(bytes.data(), dtype, kNumel, DType::kE5m2, 1);
        ASSERT_EQ(want.record.non_finite(), 1U);
        expect_matches(measure(bytes.data(), dtype, kNumel, DType::kE5m2, 1), want,
                       name_of(dtype) + " at " + std::to_string(at));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Sizes, MergeOfShardsIsTheMeasureOfTheWhole) {
  for (const DType dtype : kDTypes) {
    const std::uint64_t numel = 10'000;
    Bytes bytes = random_bytes(dtype, numel, true, 3);
    if (dtype == DType::kFp64) {  // below 2: sums of shards would saturate one by one
      for (std::size_t i = 7; i < bytes.size(); i += 8) bytes[i] &= 0xBF;
      const std::uint64_t nan = nan_of(dtype);
      std::memcpy(bytes.data(), &nan, sizeof nan);
    }
    const Reference want = reference(bytes.data(), dtype, numel, DType::kBf16, 65536);
    for (const std::uint64_t shard : {1'000U, 2'048U, 3'333U}) {
      Record merged;
      for (std::uint64_t from = 0; from < numel; from += shard) {
        merge(merged, measure(bytes.data() + from * size_of(dtype), dtype, std::min(shard, numel - from), DType::kBf16, 65536));
      }
      round_sums(merged);
      expect_matches(merged, want, name_of(dtype));
    }
  }
}

TEST_P(Sizes, NothingToMeasureIsAnEmptyRecord) {
  const float value = 1;
  for (const Record& record :
       {measure(nullptr, DType::kFp32, 0, DType::kFp16, 1), measure(&value, DType::kFp32, 0, DType::kFp16, 1),
        measure(nullptr, DType::kFp32, 5, DType::kFp16, 1), measure(&value, DType::kUnspecified, 1, DType::kFp16, 1),
        measure(&value, static_cast<DType>(77), 1, DType::kFp16, 1)}) {
    EXPECT_EQ(record.numel, 0U);
    EXPECT_EQ(record.zero, 0U);
    EXPECT_EQ(record.sum, 0);
    EXPECT_TRUE(std::isnan(record.min) && std::isnan(record.max) && std::isnan(record.absmin_nonzero));
  }
  const Record unknown_target = measure(&value, DType::kFp32, 1, static_cast<DType>(77), 1);
  EXPECT_EQ(unknown_target.numel, 1U);
  EXPECT_EQ(unknown_target.subnormal + unknown_target.flushed + unknown_target.over, 0U);
  ExponentCounts counts;
  measure_exponents(nullptr, DType::kFp32, 5, counts);
  measure_exponents(&value, DType::kUnspecified, 1, counts);
  EXPECT_EQ(counts.counts, ExponentCounts{}.counts);
}

// Normally distributed, as gradients are: sums take the fast path, which random patterns of wide formats never do.
Bytes normal_bytes(DType dtype, std::uint64_t numel) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  Bytes bytes;
  for (std::uint64_t i = 0; i < numel; ++i) append(bytes, dtype, pattern_of(dtype, static_cast<long double>(normal(random))));
  return bytes;
}

// The order of additions does not depend on the vectors' width.
TEST(Determinism, TheSameBitsOnEveryInstructionSet) {
  const std::uint64_t numel = 100'003;
  for (const DType dtype : kDTypes) {
    const Bytes inputs[] = {random_bytes(dtype, numel, false, 4), random_bytes(dtype, numel, true, 4),
                            normal_bytes(dtype, numel)};
    for (const Bytes& bytes : inputs) {
      const Record first = measure(bytes.data(), dtype, numel, DType::kFp16, 1);
      expect_matches(first, reference(bytes.data(), dtype, numel, DType::kFp16, 1), name_of(dtype));
      for (const std::int64_t target : instruction_sets()) {
        hwy::SetSupportedTargetsForTest(target);
        expect_identical(measure(bytes.data(), dtype, numel, DType::kFp16, 1), first,
                         name_of(dtype) + " on " + instruction_set());
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

// The same on every machine: these sums' bits are what x86-64 and 64-bit ARM gave. Whoever changes the order of additions makes
// ranks of different versions disagree in the last bits, and writes new ones here.
TEST(Determinism, TheSameBitsOnEveryMachine) {
  constexpr std::uint64_t kNumel = 400'003;  // several parts
  std::uint64_t state = 88172645463325252U;
  std::string sums;
  for (const DType dtype : kDTypes) {
    Bytes bytes(kNumel * size_of(dtype));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      state ^= state << 13U;
      state ^= state >> 7U;
      state ^= state << 17U;
      bytes[i] = static_cast<unsigned char>(state >> 33U);
      // Magnitudes within a few octaves: the fast sums.
      if ((i + 1) % size_of(dtype) == 0) bytes[i] = (bytes[i] & 0x83U) | (size_of(dtype) <= 2 ? 0x34U : 0x3CU);
    }
    const Record record = measure(bytes.data(), dtype, kNumel, DType::kFp16, 1);
    char line[80];
    std::snprintf(line, sizeof line, "%s %a %a\n", name_of(dtype).c_str(), record.sum, record.sum_sq);
    sums += line;
  }
  EXPECT_EQ(sums,
            "fp64 0x1.59e2ap+7 0x1.35a4e2p+14\n"
            "fp32 0x1.c6bfd2p+6 0x1.3104eap+17\n"
            "fp16 -0x1.ca058p+6 0x1.c7605p+15\n"
            "bf16 -0x1.ec9c3p-10 0x1.2ef4bcp-15\n"
            "e4m3fn -0x1.03dp+8 0x1.17f0f8p+18\n"
            "e5m2 -0x1.7a7p+8 0x1.80b50ap+15\n");
}

}  // namespace
}  // namespace scalewatch::cpu_test

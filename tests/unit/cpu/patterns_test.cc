// Every pattern of the narrow formats, and the interesting ones of the wide, alone and together.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/cpu/measure.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

class Patterns : public OnEachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Cpu, Patterns, ::testing::ValuesIn(instruction_sets()), name_of_target);

constexpr double kScales[] = {1, 65536, 0x1p-3, 3.7F, 1e-3F, 12345.678F};
constexpr DType kNarrow[] = {DType::kFp16, DType::kBf16, DType::kE4m3fn, DType::kE5m2};

// Patterns at and around every power of two, with both signs, and all special ones.
std::vector<std::uint64_t> corner_patterns(DType dtype) {
  std::vector<std::uint64_t> patterns;
  const int bits = static_cast<int>(8 * size_of(dtype));
  const int mantissa_bits = dtype == DType::kFp64 ? 52 : 23;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  for (std::uint64_t exponent = 0; exponent < (sign >> mantissa_bits); ++exponent) {
    for (int step = -1; step <= 2; ++step) {
      const std::uint64_t pattern = (exponent << mantissa_bits) + static_cast<std::uint64_t>(step);
      if (pattern < sign) patterns.insert(patterns.end(), {pattern, pattern | sign});
    }
  }
  patterns.insert(patterns.end(), {sign - 1, sign | (sign - 1)});
  return patterns;
}

std::vector<std::uint64_t> all_patterns(DType dtype) {
  std::vector<std::uint64_t> patterns(std::size_t{1} << (8 * size_of(dtype)));
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = i;
  return patterns;
}

std::vector<std::uint64_t> test_patterns(DType dtype) {
  return size_of(dtype) <= 2 ? all_patterns(dtype) : corner_patterns(dtype);
}

TEST_P(Patterns, EachAlone) {
  for (const DType dtype : kDTypes) {
    for (const std::uint64_t pattern : test_patterns(dtype)) {
      Bytes one;
      append(one, dtype, pattern);
      const DType target = DType::kFp16;
      const Reference want = reference(one.data(), dtype, 1, target, 1);
      const Record got = measure(one.data(), dtype, 1, target, 1);
      expect_matches(got, want, name_of(dtype) + " " + std::to_string(pattern));
      if (HasFailure()) return;
    }
  }
}

// All patterns in one array; blocks of finite ones, of NaN, and of both.
TEST_P(Patterns, AllTogetherAgainstEveryTargetAndScale) {
  for (const DType dtype : kDTypes) {
    const Bytes bytes = pack(dtype, test_patterns(dtype));
    const std::uint64_t numel = bytes.size() / size_of(dtype);
    for (const DType target :
         {DType::kFp64, DType::kFp32, DType::kFp16, DType::kBf16, DType::kE4m3fn, DType::kE5m2, DType::kUnspecified}) {
      for (const double scale : kScales) {
        const Reference want = reference(bytes.data(), dtype, numel, target, scale);
        const Record got = measure(bytes.data(), dtype, numel, target, scale);
        expect_matches(got, want, name_of(dtype) + " as " + name_of(target) + " / " + std::to_string(scale));
      }
    }
  }
}

// Each pattern fills a whole array: the fast look of a block sees nothing else.
TEST_P(Patterns, EachFillingAnArray) {
  constexpr std::uint64_t kNumel = 256 + 7;
  for (const DType dtype : kNarrow) {
    const unsigned step = size_of(dtype) == 1 ? 1 : 61;
    for (unsigned pattern = 0; pattern < (1U << (8 * size_of(dtype))); pattern += step) {
      const Bytes bytes = pack(dtype, std::vector<std::uint64_t>(kNumel, pattern));
      const Reference want = reference(bytes.data(), dtype, kNumel, DType::kE4m3fn, 3.7F);
      expect_matches(measure(bytes.data(), dtype, kNumel, DType::kE4m3fn, 3.7F), want,
                     name_of(dtype) + " " + std::to_string(pattern));
      if (HasFailure()) return;
    }
  }
}

TEST_P(Patterns, AScaleThatIsNoneCountsAsOne) {
  const Bytes bytes = pack(DType::kFp16, all_patterns(DType::kFp16));
  const Record plain = measure(bytes.data(), DType::kFp16, 65536, DType::kE5m2, 1);
  for (const double scale : {0.0, -2.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    expect_identical(measure(bytes.data(), DType::kFp16, 65536, DType::kE5m2, scale), plain, std::to_string(scale));
  }
}

TEST_P(Patterns, ExponentsFallIntoTheirOctave) {
  for (const DType dtype : kDTypes) {
    const std::vector<std::uint64_t> patterns = test_patterns(dtype);
    const Bytes bytes = pack(dtype, patterns);
    ExponentCounts want;
    want.counts[7] = 5;  // what is there stays
    ExponentCounts got = want;
    for (const std::uint64_t pattern : patterns) {
      const long double x = value_of(dtype, pattern);
      if (std::isfinite(x) && x != 0) ++want.counts[ExponentCounts::bin(std::ilogb(x))];
    }
    measure_exponents(bytes.data(), dtype, patterns.size(), got);
    EXPECT_EQ(got.counts, want.counts) << name_of(dtype);
  }
}

}  // namespace
}  // namespace scalewatch::cpu_test

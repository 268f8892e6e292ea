// Tensors of every type, size, address, content and shape, against the CPU's kernel and sums in long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/simt/suite/attempt.h"
#include "tests/simt/suite/data.h"
#include "tests/simt/suite/ways.h"

namespace simt {
namespace {

constexpr DType kTargets[] = {DType::kFp16, DType::kBf16, DType::kE4m3fn,     DType::kE5m2,
                              DType::kFp32, DType::kFp64, DType::kUnspecified};

TEST(Tensors, EveryAddressAndSmallSize) {
  for (const DType dtype : kDTypes) {
    std::vector<Tensor> tensors;
    for (std::size_t offset = 0; offset < 16; ++offset) {
      for (const std::uint64_t numel : {0U, 1U, 2U, 7U, 16U, 17U, 31U, 32U, 33U, 65U, 257U}) {
        Tensor tensor;
        tensor.dtype = dtype;
        tensor.offset = offset;
        const auto seed = static_cast<unsigned>(offset * 1000 + numel);
        tensor.bytes = seed % 3 == 0 ? wild_bytes(dtype, numel, seed) : normal_bytes(dtype, numel, 1e-3, seed);
        tensor.target = kTargets[seed % std::size(kTargets)];
        tensors.push_back(tensor);
      }
    }
    const Attempt attempt(tensors);
    attempt.check(attempt.measure(shuffled(7, 3, 1)));
    if (HasFailure()) return;
  }
}

// Around the block's width of vectors, around steps and rounds of the fast pass, around one and more chunks.
TEST(Tensors, SizesAroundEveryBoundary) {
  for (const DType dtype : kDTypes) {
    const std::uint64_t chunk = chunk_of(dtype);
    const std::uint64_t vector = 16 / scalewatch::element_size(dtype);
    std::vector<std::uint64_t> around{256 * vector, 512 * vector, 1024 * vector, 4096 * vector, chunk, 2 * chunk};
    std::vector<Tensor> tensors;
    for (const std::uint64_t middle : around) {
      for (const std::uint64_t numel : {middle - vector, middle - 1, middle, middle + 1, middle + vector + 1}) {
        Tensor tensor;
        tensor.dtype = dtype;
        tensor.offset = numel % 4 * scalewatch::element_size(dtype) % 16;
        tensor.bytes = normal_bytes(dtype, numel, 1e-3, static_cast<unsigned>(numel));
        tensors.push_back(tensor);
      }
    }
    const Attempt attempt(tensors);
    attempt.check(attempt.measure());
    if (HasFailure()) return;
  }
}

TEST(Tensors, OneBadElementAtEveryEdge) {
  for (const DType dtype : kDTypes) {
    const std::uint64_t chunk = chunk_of(dtype);
    const std::uint64_t size = scalewatch::element_size(dtype);
    std::vector<Tensor> tensors;
    Tensor tensor;
    tensor.dtype = dtype;
    for (const std::uint64_t pattern : bad_patterns(dtype)) {
      tensor.bytes = normal_bytes(dtype, 100, 1, 8);
      for (std::uint64_t at = 0; at < 100; at += at < 9 || at > 90 ? 1 : 11) {
        tensor.offset = at % 3 * size % 16;
        Bytes clean = tensor.bytes;
        put(tensor.bytes, dtype, at, pattern);
        tensor.name = "bad at " + std::to_string(at);
        tensors.push_back(tensor);
        tensor.bytes = clean;
      }
      tensor.offset = size;
      for (const std::uint64_t at : {std::uint64_t{0}, chunk - 1, chunk, 2 * chunk - 1, 2 * chunk, 2 * chunk + 40}) {
        tensor.bytes = normal_bytes(dtype, 2 * chunk + 41, 1, 9);
        put(tensor.bytes, dtype, at, pattern);
        tensor.name = "bad at " + std::to_string(at);
        tensors.push_back(tensor);
      }
    }
    const Attempt attempt(tensors);
    attempt.check(attempt.measure());
    if (HasFailure()) return;
  }
}

TEST(Tensors, EveryPatternAgainstEveryTargetAndScale) {
  constexpr double kScales[] = {1, 65536, 0x1p-3, 3.7F, 1e-3F};
  for (const DType dtype : kDTypes) {
    std::vector<Tensor> tensors;
    Tensor tensor;
    tensor.dtype = dtype;
    std::vector<std::uint64_t> finite;
    const std::vector<std::uint64_t> all = corner_patterns(dtype);
    std::copy_if(all.begin(), all.end(), std::back_inserter(finite), [dtype](std::uint64_t pattern) {
      return (pattern & (sign_of(dtype) - 1)) < scalewatch::format_layout(dtype).first_non_finite;
    });
    int n = 0;
    for (const DType target : kTargets) {
      for (const double scale : kScales) {
        tensor.bytes = scalewatch::cpu_test::pack(dtype, n % 2 == 0 ? finite : all);
        tensor.target = target;
        tensor.scale = scale;
        tensor.scale_in_memory = n % 3 == 0;
        ++n;
        tensors.push_back(tensor);
      }
    }
    const Attempt attempt(tensors);
    attempt.check(attempt.measure());
    if (HasFailure()) return;
  }
}

// At each limit and up to two last places around it, each pattern twice as often as the one before: a count tells which ones
// it holds.
TEST(Tensors, AtTheLimitsOfTheTarget) {
  for (const DType dtype : kDTypes) {
    std::vector<Tensor> tensors;
    for (const DType target : kTargets) {
      const scalewatch::FormatLimits limits = scalewatch::format_limits(target);
      for (const double scale : {1.0, 1024.0, static_cast<double>(3.7F)}) {
        for (const double limit : {limits.smallest_normal, limits.flush.value(), limits.over.value()}) {
          const std::uint64_t at = scalewatch::cpu_test::pattern_of(dtype, static_cast<long double>(limit) * scale);
          Tensor tensor;
          tensor.dtype = dtype;
          tensor.target = target;
          tensor.scale = scale;
          std::vector<std::uint64_t> patterns;
          for (int step = -2; step <= 2; ++step) {
            const std::uint64_t pattern = (at + static_cast<std::uint64_t>(step)) & (sign_of(dtype) - 1);
            patterns.insert(patterns.end(), std::size_t{1} << (step + 2), step % 2 == 0 ? pattern : pattern | sign_of(dtype));
          }
          tensor.bytes = scalewatch::cpu_test::pack(dtype, patterns);
          tensors.push_back(tensor);
          // The finite ones alone: the fast pass.
          std::erase_if(patterns, [dtype](std::uint64_t pattern) {
            return (pattern & (sign_of(dtype) - 1)) >= scalewatch::format_layout(dtype).first_non_finite;
          });
          tensor.bytes = scalewatch::cpu_test::pack(dtype, patterns);
          tensors.push_back(tensor);
        }
      }
    }
    const Attempt attempt(tensors);
    attempt.check(attempt.measure());
    if (HasFailure()) return;
  }
}

TEST(Tensors, AScaleThatIsNoneCountsAsOne) {
  std::vector<Tensor> tensors;
  for (const DType dtype : kDTypes) {
    for (const double scale : {0.0, -2.0, 0x1p-149, 0x1p-1074, 0x1p900, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
      for (const bool in_memory : {false, true}) {
        if (in_memory && (scale == 0x1p-1074 || scale == 0x1p900)) continue;  // no floats
        Tensor tensor;
        tensor.dtype = dtype;
        tensor.bytes = normal_bytes(dtype, 200, 2e-5, 4);
        tensor.target = dtype == DType::kFp16 ? DType::kE5m2 : DType::kFp16;
        tensor.scale = scale;
        tensor.scale_in_memory = in_memory;
        tensors.push_back(tensor);
      }
    }
  }
  const Attempt attempt(tensors);
  attempt.check(attempt.measure());
}

TEST(Tensors, SumsOfEveryMagnitude) {
  for (const DType dtype : {DType::kFp64, DType::kFp32, DType::kBf16}) {
    std::vector<Tensor> tensors;
    Tensor tensor;
    tensor.dtype = dtype;
    const int last = dtype == DType::kFp64 ? 1023 : 127;
    for (int exponent = dtype == DType::kFp64 ? -1074 : -149; exponent <= last; exponent += dtype == DType::kFp64 ? 23 : 3) {
      const long double value = std::ldexp(1.0L, exponent);
      std::vector<std::uint64_t> patterns;
      for (int i = 0; i < 300; ++i) {
        const long double x = i % 3 == 0 ? -value : i % 7 == 0 ? 0 : 1.99L * value;
        patterns.push_back(scalewatch::cpu_test::pattern_of(dtype, x));
      }
      tensor.bytes = scalewatch::cpu_test::pack(dtype, patterns);
      tensor.name = "2^" + std::to_string(exponent);
      tensors.push_back(tensor);
      put(tensor.bytes, dtype, 150, nan_of(dtype));
      tensors.push_back(tensor);
      // Small ones beside a great one.
      tensor.bytes = normal_bytes(dtype, 5000, 1e-4, 2);
      put(tensor.bytes, dtype, 4321, scalewatch::cpu_test::pattern_of(dtype, value));
      tensors.push_back(tensor);
    }
    const Attempt attempt(tensors);
    attempt.check(attempt.measure());
    if (HasFailure()) return;
  }
}

TEST(Tensors, LongOnesOfOneValueAndOfCancellingPairs) {
  std::vector<Tensor> tensors;
  for (const DType dtype : kDTypes) {
    const std::uint64_t numel = 3 * chunk_of(dtype) + 1000;
    Tensor tensor;
    tensor.dtype = dtype;
    for (const double value : {0.1, -65504.0, 448.0, 6e-8, 0.0}) {
      tensor.bytes.resize(numel * scalewatch::element_size(dtype));
      const std::uint64_t pattern = scalewatch::cpu_test::pattern_of(dtype, value);
      for (std::uint64_t i = 0; i < numel; ++i) put(tensor.bytes, dtype, i, pattern);
      tensor.name = "all " + std::to_string(value);
      tensors.push_back(tensor);
    }
    for (std::uint64_t i = 0; i < numel; ++i) {
      const std::uint64_t pattern = scalewatch::cpu_test::pattern_of(dtype, 3.0 + static_cast<double>(i / 2 % 31));
      put(tensor.bytes, dtype, i, i % 2 == 0 ? pattern : pattern | sign_of(dtype));
    }
    tensor.name = "pairs";
    tensors.push_back(tensor);
  }
  const Attempt attempt(tensors);
  attempt.check(attempt.measure());
}

TEST(Tensors, Strided) {
  struct Shape {
    std::vector<std::uint64_t> sizes;
    std::vector<std::int64_t> strides;
    std::uint64_t first;
  };
  const Shape shapes[] = {
      {{1}, {1}, 3},                                                   // one element
      {{100}, {7}, 1},                                                 // every seventh
      {{100}, {-3}, 500},                                              // backwards
      {{50}, {0}, 2},                                                  // broadcast
      {{40, 50}, {1, 40}, 0},                                          // transposed
      {{40, 33}, {64, 1}, 5},                                          // rows of a wider matrix
      {{300, 300}, {0, 1}, 9},                                         // broadcast rows, several chunks
      {{301, 299}, {1, 301}, 0},                                       // transposed, several chunks
      {{7, 3, 5, 4}, {60, 1, 12, 3}, 0},                               // channels last
      {{4, 1, 6}, {100, 77, -2}, 50},                                  // a dimension of one, one backwards
      {{2, 2, 2, 2, 2, 2, 2, 2}, {300, 140, 66, 30, 14, 6, 3, 1}, 0},  // all eight dimensions
      {{30, 0, 4}, {4, 4, 1}, 0},                                      // empty
  };
  for (const DType dtype : kDTypes) {
    std::vector<Tensor> tensors;
    for (const Shape& shape : shapes) {
      for (const bool wild : {false, true}) {
        std::uint64_t last = shape.first;
        for (std::size_t i = 0; i < shape.sizes.size(); ++i) {
          if (shape.strides[i] > 0 && shape.sizes[i] > 0)
            last += (shape.sizes[i] - 1) * static_cast<std::uint64_t>(shape.strides[i]);
        }
        Tensor tensor;
        tensor.dtype = dtype;
        tensor.offset = wild ? 1 : 8;
        tensor.bytes = wild ? wild_bytes(dtype, last + 1, 5) : normal_bytes(dtype, last + 1, 1, 5);
        tensor.sizes = shape.sizes;
        tensor.strides = shape.strides;
        tensor.first = shape.first;
        tensor.target = DType::kE4m3fn;
        tensor.scale = 4;
        tensor.name = "strided " + ::testing::PrintToString(shape.sizes);
        tensors.push_back(tensor);
      }
    }
    const Attempt attempt(tensors);
    const Outcome outcome = attempt.measure();
    attempt.check(outcome);
    if (HasFailure()) return;
    EXPECT_EQ(attempt.measure(shuffled(3, 9, 3)).bits, outcome.bits);
  }
}

}  // namespace
}  // namespace simt

// The checks that every mutant of the kernels meets: each a few milliseconds, together all that a kernel can get wrong.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/simt/suite/attempt.h"
#include "tests/simt/suite/data.h"
#include "tests/simt/suite/ways.h"

namespace simt {
namespace {

// Small tensors of every type, dense and bad ones, at odd addresses, with edges before and after whole vectors.
std::vector<Tensor> small_mix() {
  std::vector<Tensor> tensors;
  unsigned seed = 0;
  for (const DType dtype : kDTypes) {
    const std::uint64_t size = scalewatch::element_size(dtype);
    for (const std::uint64_t numel : {0U, 1U, 5U, 40U, 133U}) {
      ++seed;
      Tensor tensor;
      tensor.dtype = dtype;
      tensor.offset = seed * size % 16;
      tensor.bytes = normal_bytes(dtype, numel, seed % 2 == 0 ? 1 : 3e-5, seed);
      tensor.target = seed % 2 == 0 ? DType::kE4m3fn : DType::kFp16;
      tensors.push_back(tensor);
      tensor.bytes = wild_bytes(dtype, numel, seed);
      tensor.offset = (tensor.offset + 1) % 16;
      tensor.scale = 3.7F;
      tensor.scale_in_memory = seed % 2 == 0;
      tensors.push_back(tensor);
    }
  }
  return tensors;
}

// More than one chunk, of magnitudes around the target's limits; with each bad pattern at an edge.
std::vector<Tensor> chunk_mix() {
  std::vector<Tensor> tensors;
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16, DType::kE5m2}) {
    const std::uint64_t chunk = chunk_of(dtype);
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.offset = scalewatch::element_size(dtype);
    tensor.bytes = normal_bytes(dtype, 2 * chunk + 77, 4e-5, 3);
    tensor.name = "many small";
    tensors.push_back(tensor);
    put(tensor.bytes, dtype, chunk, scalewatch::format_layout(dtype).first_non_finite);
    put(tensor.bytes, dtype, 2 * chunk - 1, nan_of(dtype) | sign_of(dtype));
    tensor.name = "bad in the second chunk";
    tensors.push_back(tensor);
    tensor.bytes = normal_bytes(dtype, chunk, 1, 5);
    put(tensor.bytes, dtype, chunk / 3, nan_of(dtype));
    tensor.name = "nothing but a NaN";
    tensors.push_back(tensor);
  }
  return tensors;
}

// Sums at the ends of what float and double can hold, at the limits of targets, and such that are exact.
std::vector<Tensor> edge_mix() {
  std::vector<Tensor> tensors;
  const auto add = [&tensors](DType dtype, const std::vector<double>& values, DType target = DType::kFp16) {
    Tensor tensor;
    tensor.dtype = dtype;
    std::vector<std::uint64_t> patterns;
    for (const double value : values) patterns.push_back(scalewatch::cpu_test::pattern_of(dtype, value));
    tensor.bytes = scalewatch::cpu_test::pack(dtype, patterns);
    tensor.target = target;
    tensors.push_back(tensor);
  };
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const double value : {1e-25, 1e25, 1e38}) add(dtype, std::vector<double>(100, value));
  }
  constexpr double kMax = std::numeric_limits<double>::max();
  add(DType::kFp64, std::vector<double>(100, kMax));
  add(DType::kFp64, {kMax, kMax, -kMax, -kMax, 1});
  add(DType::kFp64, std::vector<double>(50, 0x1p1000));
  // All cancels, but in which order? Lanes that are added first have the same sign.
  std::vector<double> waves;
  for (unsigned i = 0; i < 256; ++i) waves.push_back(i / 4 % 2 == 0 ? kMax : -kMax);
  add(DType::kFp64, waves);
  for (const double value : {0x1p-14, 0x1p-25, 65520.0, 61440.0, 464.0, 480.0, 0x1p-17, 0x1p-10, 0x1p-6}) {
    for (const DType target : {DType::kFp16, DType::kE5m2, DType::kE4m3fn}) {
      add(DType::kFp32, std::vector<double>(40, value), target);
    }
  }
  add(DType::kFp32, std::vector<double>(37, -0.0));
  add(DType::kFp64, std::vector<double>(3, -0.0));
  // An e4m3fn NaN is the greatest pattern; beside others of its vector.
  add(DType::kE4m3fn, std::vector<double>(64, 448));
  put(tensors.back().bytes, DType::kE4m3fn, 40, nan_of(DType::kE4m3fn));
  return tensors;
}

TEST(Quick, SmallTensors) {
  const Attempt attempt(small_mix());
  const Outcome first = attempt.measure();
  attempt.check(first);
  if (HasFailure()) return;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Outcome other = attempt.measure(shuffled(seed, seed == 1 ? 1 : 20, seed == 1 ? 1 : 3));
    ASSERT_EQ(other.fault, "");
    ASSERT_EQ(other.bits, first.bits) << "another schedule, another result";
  }
}

TEST(Quick, Edges) {
  const Attempt attempt(edge_mix());
  attempt.check(attempt.measure());
}

// Exact in double, so the rounding to 24 bits is all that is left: ties, to even.
TEST(Quick, ExactSums) {
  std::vector<Tensor> tensors;
  for (const double value : {16777216.0, 16777218.0, 16777220.0, 33554434.0}) {
    Tensor tensor;
    tensor.dtype = DType::kFp64;
    for (const double x : {value, 1.0, 0.0, -0.0}) {
      scalewatch::cpu_test::append(tensor.bytes, tensor.dtype, std::bit_cast<std::uint64_t>(x));
    }
    tensors.push_back(tensor);
  }
  const Attempt attempt(tensors);
  const Outcome outcome = attempt.measure();
  attempt.check(outcome);
  for (std::size_t i = 0; i < outcome.records.size(); ++i) {
    EXPECT_EQ(outcome.records[i].sum, attempt.expected(i).sum) << i;
    EXPECT_EQ(outcome.records[i].sum_sq, attempt.expected(i).sum_sq) << i;
  }
}

TEST(Quick, Chunks) {
  const Attempt attempt(chunk_mix());
  const Outcome first = attempt.measure();
  attempt.check(first);
  if (HasFailure()) return;
  const Outcome other = attempt.measure(shuffled(1, 1, 2));
  ASSERT_EQ(other.fault, "");
  ASSERT_EQ(other.bits, first.bits) << "another schedule, another result";
}

}  // namespace
}  // namespace simt

// Strided tensors against a copy in the order of their indices.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "cuda/cpu/measure.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

class Strided : public OnEachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Cpu, Strided, ::testing::ValuesIn(instruction_sets()), name_of_target);

StridedTensor view(const void* data, DType dtype, const std::vector<std::uint64_t>& sizes,
                   const std::vector<std::int64_t>& strides) {
  StridedTensor tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.dims = sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    tensor.sizes[i] = sizes[i];
    tensor.strides[i] = strides[i];
  }
  return tensor;
}

// Elements by index, last index fastest.
Bytes copy_of(const StridedTensor& tensor) {
  Bytes bytes;
  std::vector<std::uint64_t> index(tensor.dims);
  while (true) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < tensor.dims; ++i) offset += static_cast<std::int64_t>(index[i]) * tensor.strides[i];
    const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
    const auto* element = static_cast<const unsigned char*>(tensor.data) + offset * size;
    bytes.insert(bytes.end(), element, element + size);
    std::size_t dim = tensor.dims;
    while (dim > 0 && ++index[dim - 1] == tensor.sizes[dim - 1]) index[--dim] = 0;
    if (dim == 0) return bytes;
  }
}

TEST_P(Strided, MatchesACopy) {
  std::mt19937_64 random(6);
  Bytes memory(8 * 200'000);
  for (unsigned char& byte : memory) byte = static_cast<unsigned char>(random());
  struct Shape {
    std::vector<std::uint64_t> sizes;
    std::vector<std::int64_t> strides;
    std::int64_t offset;
  };
  const Shape shapes[] = {
      {{}, {}, 3},                                                     // a scalar
      {{100}, {1}, 0},                                                 // contiguous
      {{100}, {7}, 1},                                                 // every seventh
      {{100}, {-3}, 500},                                              // backwards
      {{50}, {0}, 2},                                                  // broadcast
      {{40, 50}, {50, 1}, 0},                                          // contiguous, joined
      {{40, 50}, {1, 40}, 0},                                          // transposed
      {{40, 33}, {64, 1}, 5},                                          // rows of a wider matrix
      {{3, 5000}, {6000, 1}, 1},                                       // rows longer than a block
      {{7, 3, 5, 4}, {60, 1, 12, 3}, 0},                               // channels last
      {{4, 1, 6}, {100, 77, -2}, 50},                                  // a dimension of one, one backwards
      {{30, 0, 4}, {4, 4, 1}, 0},                                      // empty
      {{2, 2, 2, 2, 2, 2, 2, 2}, {300, 140, 66, 30, 14, 6, 3, 1}, 0},  // all eight dimensions
      {{5, 0, 3}, {INT64_MAX, 1, 1}, 0},                               // empty wins over a stride that can't be
  };
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : shapes) {
      const auto* start = memory.data() + 1 + shape.offset * static_cast<std::int64_t>(size_of(dtype));  // not aligned
      const StridedTensor tensor = view(start, dtype, shape.sizes, shape.strides);
      const Record got = measure(tensor, DType::kE4m3fn, 4);
      std::uint64_t numel = 1;
      for (const std::uint64_t size : shape.sizes) numel *= size;
      const Bytes copy = numel == 0 ? Bytes{} : copy_of(tensor);
      expect_matches(got, reference(copy.data(), dtype, numel, DType::kE4m3fn, 4),
                     name_of(dtype) + ::testing::PrintToString(shape.sizes));
    }
  }
}

TEST_P(Strided, SameBitsAsAContiguousCopyInMemoryOrder) {
  std::vector<float> values(3 * 7000);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  const StridedTensor rows = view(values.data(), DType::kFp32, {3, 6000}, {7000, 1});
  const Bytes copy = copy_of(rows);
  const Record want = measure(copy.data(), DType::kFp32, 18'000, DType::kFp16, 1);
  expect_identical(measure(rows, DType::kFp16, 1), want, "rows");
  // A transposed dense matrix lies in memory as the plain one does.
  const StridedTensor transposed = view(values.data(), DType::kFp32, {7000, 3}, {1, 7000});
  expect_identical(measure(transposed, DType::kFp16, 1), measure(values.data(), DType::kFp32, values.size(), DType::kFp16, 1),
                   "transposed");
}

TEST_P(Strided, DescriptionsThatCannotBeAreEmpty) {
  const float value = 1;
  StridedTensor nine = view(&value, DType::kFp32, {1}, {1});
  nine.dims = StridedTensor::kMaxDims + 1;
  EXPECT_EQ(measure(nine, DType::kFp16, 1).numel, 0U);
  EXPECT_EQ(measure(view(nullptr, DType::kFp32, {1}, {1}), DType::kFp16, 1).numel, 0U);
  EXPECT_EQ(measure(view(&value, DType::kUnspecified, {1}, {1}), DType::kFp16, 1).numel, 0U);
  EXPECT_EQ(measure(view(&value, DType::kFp32, {1ULL << 40, 1ULL << 40}, {0, 0}), DType::kFp16, 1).numel, 0U);
  EXPECT_EQ(measure(view(&value, DType::kFp32, {3}, {INT64_MAX}), DType::kFp16, 1).numel, 0U);
  EXPECT_EQ(measure(view(&value, DType::kFp32, {2}, {INT64_MIN}), DType::kFp16, 1).numel, 0U);
  EXPECT_EQ(measure(view(&value, DType::kFp32, {1, 1}, {INT64_MIN, INT64_MAX}), DType::kFp16, 1).numel, 1U);
}

}  // namespace
}  // namespace scalewatch::cpu_test

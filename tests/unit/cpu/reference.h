// An independent measurement to test against: element by element, in long double, from the formats' textbook definitions.
// Shares no code with the kernel or with cuda/record's limits.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/record/record.h"

namespace scalewatch::cpu_test {

inline constexpr DType kDTypes[] = {DType::kFp64, DType::kFp32, DType::kFp16, DType::kBf16, DType::kE4m3fn, DType::kE5m2};

std::string name_of(DType dtype);
std::size_t size_of(DType dtype);

// A tensor's memory: patterns of elements, packed.
using Bytes = std::vector<unsigned char>;

void append(Bytes& bytes, DType dtype, std::uint64_t pattern);
Bytes pack(DType dtype, const std::vector<std::uint64_t>& patterns);

// Value of a pattern.
long double value_of(DType dtype, std::uint64_t pattern);

// Pattern of the value nearest to x (of those not above it in magnitude).
std::uint64_t pattern_of(DType dtype, long double x);

struct Reference {
  Record record;  // sums are not rounded
  long double sum_of_magnitudes = 0;
};

// scale must have at most 24 significant bits, so that long double compares exactly.
Reference reference(const void* data, DType dtype, std::uint64_t numel, DType target, double scale);

// Counts and extremes equal, sums within the design's bounds.
void expect_matches(const Record& got, const Reference& want, const std::string& where);

// The same bits in every field.
void expect_identical(const Record& got, const Record& want, const std::string& where);

// Instruction sets that this machine and build offer; the names of instruction_set().
std::vector<std::int64_t> instruction_sets();

// A test that runs once on each instruction set.
class OnEachInstructionSet : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override;
  void TearDown() override;
};
std::string name_of_target(const ::testing::TestParamInfo<std::int64_t>& target);

}  // namespace scalewatch::cpu_test

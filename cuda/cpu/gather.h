// Walks a strided tensor in the order of memory. Internal to cuda/cpu.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/cpu/kernel.h"
#include "cuda/cpu/measure.h"

namespace scalewatch::cpu {

// A strided tensor with its dimensions reduced to what matters: sizes over 1, strides not negative and not rising, neighbours
// that continue each other joined. Dimension dims - 1 is the innermost one.
struct Walk {
  const std::byte* start = nullptr;
  std::size_t dims = 0;
  std::uint64_t sizes[StridedTensor::kMaxDims] = {};
  std::int64_t strides[StridedTensor::kMaxDims] = {};  // in elements
};

// False when the tensor has no elements, or its description can't be right.
[[nodiscard]] bool make_walk(const StridedTensor& tensor, Walk& walk) noexcept;

// Elements of a walk.
[[nodiscard]] std::uint64_t count_elements(const Walk& walk) noexcept;

// Adds all elements of a walk to a histogram.
void add_walk_exponents(const Walk& walk, DType dtype, ExponentCounts& counts) noexcept;

// Adds `count` elements of a walk, at least one, from number `first` on: runs of whole blocks where they lie, the rest gathered
// into blocks.
void add_walk(const Walk& walk, DType dtype, std::uint64_t first, std::uint64_t count, const Cuts& cuts, State& state) noexcept;

}  // namespace scalewatch::cpu

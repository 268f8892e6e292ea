// Measures tensors in host memory with the widest SIMD instructions that the machine has.
//
// All functions are thread-safe, allocate nothing, and leave the caller's floating-point environment as it was (rounding mode,
// flush-to-zero, trapped exceptions: none of them changes a result). Without Workers they take no lock and make no system call.
// At most 40 KiB of stack. Results are the same bits on every machine and instruction set and for every number of threads: the
// order of additions is fixed.
//
// x86-64 is tested with every instruction set from SSSE3 to AVX-512. For 64-bit ARM, NEON and SVE compile (g++ 12) and have
// passed these tests under QEMU, never on such a processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/record/exponents.h"
#include "cuda/record/record.h"

namespace scalewatch {

class Workers;  // cuda/cpu/workers.h

// A tensor of up to kMaxDims dimensions anywhere in host memory.
struct StridedTensor {
  static constexpr std::size_t kMaxDims = 8;

  const void* data = nullptr;  // element at index (0, ..., 0); need not be aligned
  DType dtype = DType::kUnspecified;
  std::size_t dims = 0;                 // 0 = one element (a scalar)
  std::uint64_t sizes[kMaxDims] = {};   // elements along each dimension; any 0 makes the tensor empty
  std::int64_t strides[kMaxDims] = {};  // in elements; may be 0 (broadcast: each repetition counts) or negative
};

// Statistics of numel contiguous elements at data, which need not be aligned.
//
// target: format that subnormal, flushed and over are counted against; kUnspecified leaves the three at 0.
// scale: what the values were multiplied by before they were stored; the three thresholds are met by |x| / scale, compared
// exactly. A scale that is not finite and positive is taken as 1.
// workers: threads that help with tensors of 4 MiB and more; null: the caller alone.
// Empty is legal. An unknown dtype or a null data gives the record of an empty tensor.
//
// Error of sum: at most 1e-6 of the sum of magnitudes. Error of sum_sq: at most 1e-6 relative; squares of fp64 elements under
// 1e-154 may be lost. Both saturate at double's range.
[[nodiscard]] Record measure(const void* data, DType dtype, std::uint64_t numel, DType target, double scale,
                             Workers* workers = nullptr) noexcept;

// The same for a strided tensor. Elements are taken in the order of memory, so a dense tensor with permuted dimensions
// (transposed, channels last) costs no more than a contiguous one; the sums are the very bits that a contiguous copy in that
// order would give. More than kMaxDims dimensions, or more than 2^63 elements or bytes between its ends, give the record of an
// empty tensor.
[[nodiscard]] Record measure(const StridedTensor& tensor, DType target, double scale, Workers* workers = nullptr) noexcept;

// Adds the finite non-zero elements at data to a histogram of floor(log2 |x|). Values as stored, not unscaled.
void measure_exponents(const void* data, DType dtype, std::uint64_t numel, ExponentCounts& counts) noexcept;
// The same for a strided tensor.
void measure_exponents(const StridedTensor& tensor, ExponentCounts& counts) noexcept;

// Name of the instruction set that measure() uses on this machine, such as "AVX2". hwy::SetSupportedTargetsForTest restricts
// the choice, in tests only.
[[nodiscard]] const char* instruction_set() noexcept;

}  // namespace scalewatch

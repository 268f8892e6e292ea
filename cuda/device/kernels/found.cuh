// What was found among some elements, and how threads put together what they found.
#pragma once

#include "cuda/device/abi.h"
#include "cuda/device/kernels/intrinsics.cuh"

namespace scalewatch::device {

// Positions of the counts of Found.
enum : U32 { kZero, kSubnormal, kFlushed, kCommonCounts, kNan = kCommonCounts, kPosInf, kNegInf, kOver, kCounts };
// Positions of the sums.
enum : U32 { kSum, kSumSq, kCommonSums, kHugeSum = kCommonSums, kHugeSumSq, kSums };

SCALEWATCH_DEVICE float nothing() {
  return bits_to_float(0x7FFFFFFFU);
}

// Count: U32 for a chunk, U64 for a tensor. min, max, absmin_nonzero: NaN where there is none, zeros of any sign.
template <class Count>
struct Found {
  double sums[kSums] = {};
  Count counts[kCounts] = {};
  float min = nothing();
  float max = nothing();
  float absmin_nonzero = nothing();
};

SCALEWATCH_DEVICE U64 shuffle_xor(U64 value, U32 mask) {
  const U32 low = shuffle_xor(static_cast<U32>(value), mask);
  const U32 high = shuffle_xor(static_cast<U32>(value >> 32), mask);
  return static_cast<U64>(high) << 32 | low;
}

SCALEWATCH_DEVICE U64 warp_sum(U64 value) {
  SCALEWATCH_UNROLL
  for (U32 mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// Both partners of an exchange add the same two numbers, so all lanes get the same bits.
SCALEWATCH_DEVICE double warp_sum(double value) {
  SCALEWATCH_UNROLL
  for (U32 mask = 16; mask > 0; mask /= 2) value += bits_to_double(shuffle_xor(double_to_bits(value), mask));
  return value;
}

// Unsigned number that grows with a float; and back. 0 and the largest stand for NaN.
SCALEWATCH_DEVICE U32 order_of(float value) {
  const U32 bits = float_to_bits(value);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
SCALEWATCH_DEVICE float in_order(U32 order) {
  return bits_to_float((order & 0x80000000U) != 0 ? order & 0x7FFFFFFFU : ~order);
}

// Puts together what the lanes of a warp found; every lane gets it. kAll: else only the common counts and sums.
template <bool kAll, class Count>
SCALEWATCH_DEVICE void gather_warp(Found<Count>& found) {
  SCALEWATCH_UNROLL
  for (U32 i = 0; i < (kAll ? kSums : kCommonSums); ++i) found.sums[i] = warp_sum(found.sums[i]);
  SCALEWATCH_UNROLL
  for (U32 i = 0; i < (kAll ? kCounts : kCommonCounts); ++i) found.counts[i] = warp_sum(found.counts[i]);
  found.min = in_order(warp_min(found.min == found.min ? order_of(found.min) : 0xFFFFFFFFU));
  found.max = in_order(warp_max(found.max == found.max ? order_of(found.max) : 0U));
  found.absmin_nonzero = bits_to_float(warp_min(float_to_bits(found.absmin_nonzero) & 0x7FFFFFFFU));
}

// What each warp of the block found, with flags that are joined by or.
template <class Count>
struct WarpResults {
  Found<Count> found[kWarps];
  U32 flags[kWarps];
};

// Puts together what the threads of a block found, in two steps, with a barrier between them. The caller has a barrier between
// the end of one gathering and the next.
template <bool kAll, class Count>
SCALEWATCH_DEVICE void gather_block_begin(Found<Count>& found, U32 flags) {
  WarpResults<Count>& results = block_shared<WarpResults<Count>>();
  gather_warp<kAll>(found);
  flags = warp_or(flags);
  if (thread_index() % 32 == 0) {
    results.found[thread_index() / 32] = found;
    results.flags[thread_index() / 32] = flags;
  }
}

// The flags of all threads; for all threads.
template <class Count>
SCALEWATCH_DEVICE U32 block_flags() {
  U32 flags = 0;
  SCALEWATCH_UNROLL
  for (U32 i = 0; i < kWarps; ++i) flags |= block_shared<WarpResults<Count>>().flags[i];
  return flags;
}

// For the first warp, whose lanes all get it.
template <bool kAll, class Count>
SCALEWATCH_DEVICE Found<Count> gather_block_end() {
  Found<Count> found;
  if (thread_index() < kWarps) found = block_shared<WarpResults<Count>>().found[thread_index()];
  gather_warp<kAll>(found);
  return found;
}

}  // namespace scalewatch::device

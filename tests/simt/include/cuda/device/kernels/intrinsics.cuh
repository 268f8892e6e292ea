// The harness's counterpart of cuda/device/kernels/intrinsics.cuh: the same functions to the same definitions, in C++. Where
// the definition leaves something open, this takes the less welcome way or fails. tests/simt/intrinsics_test.cc checks each
// one.
#pragma once

#include <bit>
#include <cmath>
#include <type_traits>

#include "cuda/device/abi.h"
#include "simt/cuda.h"
#include "simt/packed.h"

#define SCALEWATCH_DEVICE inline
#define SCALEWATCH_KERNEL(blocks) extern "C" void
#define SCALEWATCH_PARAMS(type) const type
#define SCALEWATCH_NO_UNROLL
#define SCALEWATCH_UNROLL

namespace scalewatch::device {

// --- Threads ---

inline U32 thread_index() {
  return threadIdx.x;
}
inline U32 block_index() {
  return blockIdx.x;
}
inline U32 block_count() {
  return gridDim.x;
}
inline void block_barrier(SIMT_SITE) {
  __syncthreads(site);
}
template <class T>
T& block_shared() {
  static_assert(std::is_trivially_destructible_v<T>);
  __shared__ T object;
  return object;
}

// --- Warps ---

inline constexpr U32 kWholeWarp = 0xFFFFFFFFU;
inline U32 shuffle_xor(U32 value, U32 mask, SIMT_SITE) {
  return __shfl_xor_sync(kWholeWarp, value, static_cast<int>(mask), 32, site);
}
inline U32 ballot(bool condition, SIMT_SITE) {
  return __ballot_sync(kWholeWarp, condition ? 1 : 0, site);
}
inline U32 warp_sum(U32 value, SIMT_SITE) {
  return __reduce_add_sync(kWholeWarp, value, site);
}
inline U32 warp_or(U32 value, SIMT_SITE) {
  return __reduce_or_sync(kWholeWarp, value, site);
}
inline U32 warp_min(U32 value, SIMT_SITE) {
  return __reduce_min_sync(kWholeWarp, value, site);
}
inline U32 warp_max(U32 value, SIMT_SITE) {
  return __reduce_max_sync(kWholeWarp, value, site);
}

// --- Memory ---

struct Words {
  U32 word[4];
};
inline Words load_vector(U64 address, SIMT_SITE) {
  simt::check_access(reinterpret_cast<const void*>(address), sizeof(Words), 16, simt::Access::kLoadConstant, site);
  return *reinterpret_cast<const Words*>(address);
}
template <class T>
T load(U64 address, SIMT_SITE) {
  simt::check_access(reinterpret_cast<const void*>(address), sizeof(T), alignof(T), simt::Access::kLoad, site);
  return *reinterpret_cast<const T*>(address);
}
template <class T>
void store(U64 address, const T& value, SIMT_SITE) {
  simt::check_access(reinterpret_cast<const void*>(address), sizeof(T), alignof(T), simt::Access::kStore, site);
  *reinterpret_cast<T*>(address) = value;
}
inline Words load_fresh(U64 address, SIMT_SITE) {
  simt::check_access(reinterpret_cast<const void*>(address), sizeof(Words), 16, simt::Access::kLoadFresh, site);
  return *reinterpret_cast<const Words*>(address);
}
inline void device_fence() {
  __threadfence();
}
inline U32 take_ticket(U64 address, U32 last, SIMT_SITE) {
  return atomicInc(reinterpret_cast<U32*>(address), last, site);
}
inline void add_shared(U32& counter, U32 value, SIMT_SITE) {
  atomicAdd(&counter, value, site);
}
inline void add_global(U64 address, U64 value, SIMT_SITE) {
  atomicAdd(reinterpret_cast<U64*>(address), value, site);
}

// --- Bits ---

inline float bits_to_float(U32 bits) {
  return std::bit_cast<float>(bits);
}
inline U32 float_to_bits(float value) {
  return std::bit_cast<U32>(value);
}
inline double bits_to_double(U64 bits) {
  return std::bit_cast<double>(bits);
}
inline U64 double_to_bits(double value) {
  return std::bit_cast<U64>(value);
}
inline U32 population(U32 word) {
  return static_cast<U32>(std::popcount(word));
}
inline U32 bit_width(U64 word) {
  return static_cast<U32>(std::bit_width(word));
}
inline U64 multiply_high(U64 a, U64 b) {
  return __umul64hi(a, b);
}
inline U32 permute_bytes(U32 word, U32 select) {
  return __byte_perm(word, 0, select);
}

// --- Arithmetic ---

inline float fused_multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
// Of two zeros now one, now the other.
template <bool kLargest>
float extreme_float(float a, float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) {
    static U32 calls = 0;
    return (++calls & 1U) != 0 ? a : b;
  }
  return (a < b) != kLargest ? a : b;
}
inline float min_float(float a, float b) {
  return extreme_float<false>(a, b);
}
inline float max_float(float a, float b) {
  return extreme_float<true>(a, b);
}

// --- Packed fp16 ---

inline float low_half(U32 word) {
  return simt::half_value(word & 0xFFFFU);
}
inline float high_half(U32 word) {
  return simt::half_value(word >> 16);
}
inline U32 half_bits(float value) {
  return simt::half_nearest(value);
}
inline U32 min_halves(U32 a, U32 b) {
  return simt::extreme_pair<simt::Fp16, false>(a, b);
}
inline U32 max_halves(U32 a, U32 b) {
  return simt::extreme_pair<simt::Fp16, true>(a, b);
}

// Two counters of 16 bits; the definition promises no more than 256 in each.
using Tally = U32;
template <class Format>
Tally tally_below(Tally tally, U32 word, U32 cut, bool count_nan) {
  const auto below = [&](U32 shift) -> U32 {
    const U32 magnitude = word >> shift & 0x7FFFU;
    if (magnitude > Format::kInfinity) return count_nan ? 1 : 0;
    return magnitude < (cut >> shift & 0xFFFFU) ? 1 : 0;
  };
  tally += below(0) | below(16) << 16;
  if ((tally & 0xFFFFU) > 256 || (tally >> 16) > 256) simt::fail("a tally counts beyond 256", simt::Site::current());
  return tally;
}
inline U32 total_of_tally(Tally tally) {
  return (tally & 0xFFFFU) + (tally >> 16);
}
inline Tally tally_halves_below(Tally tally, U32 word, U32 cut) {
  return tally_below<simt::Fp16>(tally, word, cut, false);
}
inline U32 total_of_halves(Tally tally) {
  return total_of_tally(tally);
}

// --- Packed bf16 ---

inline float low_bfloat(U32 word) {
  return bits_to_float(word << 16);
}
inline float high_bfloat(U32 word) {
  return bits_to_float(word & 0xFFFF0000U);
}
inline U32 min_bfloats(U32 a, U32 b) {
  return simt::extreme_pair<simt::Bf16, false>(a, b);
}
inline U32 max_bfloats(U32 a, U32 b) {
  return simt::extreme_pair<simt::Bf16, true>(a, b);
}
// What it says of NaN is not defined: here it counts.
inline Tally tally_bfloats_below(Tally tally, U32 word, U32 cut) {
  return tally_below<simt::Bf16>(tally, word, cut, true);
}
inline U32 total_of_bfloats(Tally tally) {
  return total_of_tally(tally);
}

}  // namespace scalewatch::device

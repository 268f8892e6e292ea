// CUDA's language for g++: keywords, built-in variables, synchronisation, warp operations and atomics, run by the harness.
// Each function is what the CUDA C++ Programming Guide says of it; the last parameter is where it is called.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tests/simt/harness/runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __grid_constant__

using dim3 = simt::Dim3;
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
struct alignas(16) double2 {
  double x, y;
};

#define threadIdx (::simt::indices().thread)
#define blockIdx (::simt::indices().block)
#define blockDim (::simt::indices().block_dim)
#define gridDim (::simt::indices().grid_dim)
inline constexpr int warpSize = 32;

#define SIMT_SITE ::simt::Site site = ::simt::Site::current()

// Barriers.

inline void __syncthreads(SIMT_SITE) {
  simt::meet(simt::Op::kBarrier, 0, 0, 0, 32, site);
}
inline int __syncthreads_count(int predicate, SIMT_SITE) {
  return static_cast<int>(simt::meet(simt::Op::kBarrierCount, 0, predicate != 0 ? 1 : 0, 0, 32, site));
}
inline int __syncthreads_and(int predicate, SIMT_SITE) {
  return static_cast<int>(simt::meet(simt::Op::kBarrierAnd, 0, predicate != 0 ? 1 : 0, 0, 32, site));
}
inline int __syncthreads_or(int predicate, SIMT_SITE) {
  return static_cast<int>(simt::meet(simt::Op::kBarrierOr, 0, predicate != 0 ? 1 : 0, 0, 32, site));
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, SIMT_SITE) {
  simt::meet(simt::Op::kWarpBarrier, mask, 0, 0, 32, site);
}
inline void __threadfence() {
  simt::step();
}
inline void __threadfence_block() {
  simt::step();
}

namespace simt {

// Values of 4 or 8 bytes as the harness carries them.
template <class T>
std::uint64_t carry(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<Word>(value);
}
template <class T>
T uncarry(std::uint64_t value) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(static_cast<Word>(value));
}
template <class T>
T shuffle(Op op, unsigned mask, T value, unsigned argument, int width, Site site) {
  return uncarry<T>(meet(op, mask, carry(value), argument, static_cast<std::uint32_t>(width), site));
}

}  // namespace simt

// Warp operations.

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, SIMT_SITE) {
  return simt::shuffle(simt::Op::kShuffle, mask, value, static_cast<unsigned>(lane), width, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  return simt::shuffle(simt::Op::kShuffleUp, mask, value, delta, width, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  return simt::shuffle(simt::Op::kShuffleDown, mask, value, delta, width, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_SITE) {
  return simt::shuffle(simt::Op::kShuffleXor, mask, value, static_cast<unsigned>(lane_mask), width, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_SITE) {
  return static_cast<unsigned>(simt::meet(simt::Op::kBallot, mask, predicate != 0 ? 1 : 0, 0, 32, site));
}
inline int __any_sync(unsigned mask, int predicate, SIMT_SITE) {
  return static_cast<int>(simt::meet(simt::Op::kAny, mask, predicate != 0 ? 1 : 0, 0, 32, site));
}
inline int __all_sync(unsigned mask, int predicate, SIMT_SITE) {
  return static_cast<int>(simt::meet(simt::Op::kAll, mask, predicate != 0 ? 1 : 0, 0, 32, site));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, SIMT_SITE) {
  return static_cast<unsigned>(simt::meet(simt::Op::kMatchAny, mask, simt::carry(value), 0, 32, site));
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all, SIMT_SITE) {
  const auto lanes = static_cast<unsigned>(simt::meet(simt::Op::kMatchAll, mask, simt::carry(value), 0, 32, site));
  *all = lanes != 0 ? 1 : 0;
  return lanes;
}
template <class T>
T __reduce_add_sync(unsigned mask, T value, SIMT_SITE) {
  return simt::uncarry<T>(simt::meet(simt::Op::kAdd, mask, simt::carry(value), 0, 32, site));
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, SIMT_SITE) {
  constexpr auto kOp = std::is_signed_v<T> ? simt::Op::kMinSigned : simt::Op::kMinUnsigned;
  return simt::uncarry<T>(simt::meet(kOp, mask, simt::carry(value), 0, 32, site));
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, SIMT_SITE) {
  constexpr auto kOp = std::is_signed_v<T> ? simt::Op::kMaxSigned : simt::Op::kMaxUnsigned;
  return simt::uncarry<T>(simt::meet(kOp, mask, simt::carry(value), 0, 32, site));
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, SIMT_SITE) {
  return static_cast<unsigned>(simt::meet(simt::Op::kAnd, mask, value, 0, 32, site));
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, SIMT_SITE) {
  return static_cast<unsigned>(simt::meet(simt::Op::kOr, mask, value, 0, 32, site));
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, SIMT_SITE) {
  return static_cast<unsigned>(simt::meet(simt::Op::kXor, mask, value, 0, 32, site));
}

// Atomics on global and shared memory. Other threads may go on before and after, never within.

namespace simt {

template <class T, class Change>
T atomic(T* address, Site site, Change change) {
  check_access(address, sizeof(T), sizeof(T), Access::kAtomic, site);
  step();
  const T old = *address;
  *address = change(old);
  step();
  return old;
}

}  // namespace simt

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value, SIMT_SITE) {
  static_assert(std::is_integral_v<T>, "the order of floating-point additions would be left to chance");
  return simt::atomic(address, site, [value](T old) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(old) + static_cast<U>(value));
  });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value, SIMT_SITE) {
  return simt::atomic(address, site, [value](T old) { return old < value ? old : value; });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value, SIMT_SITE) {
  return simt::atomic(address, site, [value](T old) { return old > value ? old : value; });
}
template <class T>
T atomicAnd(T* address, std::type_identity_t<T> value, SIMT_SITE) {
  return simt::atomic(address, site, [value](T old) { return static_cast<T>(old & value); });
}
template <class T>
T atomicOr(T* address, std::type_identity_t<T> value, SIMT_SITE) {
  return simt::atomic(address, site, [value](T old) { return static_cast<T>(old | value); });
}
template <class T>
T atomicXor(T* address, std::type_identity_t<T> value, SIMT_SITE) {
  return simt::atomic(address, site, [value](T old) { return static_cast<T>(old ^ value); });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value, SIMT_SITE) {
  return simt::atomic(address, site, [value](T) { return value; });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value, SIMT_SITE) {
  return simt::atomic(address, site, [compare, value](T old) { return old == compare ? value : old; });
}
inline unsigned atomicInc(unsigned* address, unsigned limit, SIMT_SITE) {
  return simt::atomic(address, site, [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}

// Bits.

inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}

// Arithmetic.

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}
// Bytes 0 to 3 are x's, 4 to 7 are y's; byte i of the result is the one that the lower 3 bits of hex digit i name. With the
// digit's highest bit set it would be the byte's sign: not used here.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned select) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(y) << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned digit = select >> (4 * i) & 0xFU;
    if (digit > 7) simt::fail("a digit of a byte permutation is above 7", simt::Site::current());
    result |= static_cast<unsigned>(bytes >> (8 * digit) & 0xFFU) << (8 * i);
  }
  return result;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}

// The number where one is NaN, signalling or not; glibc's own give NaN for a signalling one.
namespace simt {
inline float smaller(float a, float b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : a < b ? a : b;
}
inline float larger(float a, float b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : a > b ? a : b;
}
}  // namespace simt
#define fminf ::simt::smaller
#define fmaxf ::simt::larger

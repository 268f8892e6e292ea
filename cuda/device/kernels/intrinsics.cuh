// Everything that only a GPU has, each with its definition. The kernels use nothing else of CUDA, so another header with these
// same functions runs them elsewhere: the tests do so, one fiber a thread.
//
// A block has kThreads threads in one dimension: warp w holds threads 32 w ... 32 w + 31. Functions of a warp are called by all
// 32 lanes together, the barrier of a block by all its threads. Packed words hold two 16-bit values, the lower half first.
#pragma once

#include "cuda/device/abi.h"

#define SCALEWATCH_DEVICE __device__ __forceinline__
// A kernel of kThreads threads, so many blocks of which fit on a multiprocessor. Its one parameter lies in constant memory.
#define SCALEWATCH_KERNEL(blocks) extern "C" __global__ void __launch_bounds__(::scalewatch::device::kThreads, blocks)
#define SCALEWATCH_PARAMS(type) const __grid_constant__ type
// Before a loop: not unrolled; unrolled wholly.
#define SCALEWATCH_NO_UNROLL _Pragma("unroll 1")
#define SCALEWATCH_UNROLL _Pragma("unroll")

namespace scalewatch::device {

// --- Threads ---

// 0 ... kThreads - 1.
SCALEWATCH_DEVICE U32 thread_index() {
  return threadIdx.x;
}
SCALEWATCH_DEVICE U32 block_index() {
  return blockIdx.x;
}
SCALEWATCH_DEVICE U32 block_count() {
  return gridDim.x;
}
// Waits for all threads of the block; what they wrote before is seen by all after.
SCALEWATCH_DEVICE void block_barrier() {
  __syncthreads();
}
// Memory of the block, one object a type, with no value at first.
template <class T>
SCALEWATCH_DEVICE T& block_shared() {
  __shared__ T object;
  return object;
}

// --- Warps: all 32 lanes call ---

// Value of lane (own lane xor mask).
SCALEWATCH_DEVICE U32 shuffle_xor(U32 value, U32 mask) {
  return __shfl_xor_sync(0xFFFFFFFFU, value, static_cast<int>(mask));
}
// Bit i is set when lane i's condition holds.
SCALEWATCH_DEVICE U32 ballot(bool condition) {
  return __ballot_sync(0xFFFFFFFFU, condition);
}

#if __CUDA_ARCH__ >= 800
#define SCALEWATCH_WARP_REDUCTION(name, combine, instruction)                                   \
  SCALEWATCH_DEVICE U32 name(U32 value) {                                                       \
    U32 result;                                                                                 \
    asm volatile("redux.sync." instruction " %0, %1, 0xffffffff;" : "=r"(result) : "r"(value)); \
    return result;                                                                              \
  }
#else
#define SCALEWATCH_WARP_REDUCTION(name, combine, instruction)    \
  SCALEWATCH_DEVICE U32 name(U32 value) {                        \
    SCALEWATCH_UNROLL for (U32 mask = 16; mask > 0; mask /= 2) { \
      const U32 other = shuffle_xor(value, mask);                \
      value = combine;                                           \
    }                                                            \
    return value;                                                \
  }
#endif
// Sum modulo 2^32, bitwise or, smallest and largest of the lanes' values; every lane gets it.
SCALEWATCH_WARP_REDUCTION(warp_sum, value + other, "add.u32")
SCALEWATCH_WARP_REDUCTION(warp_or, value | other, "or.b32")
SCALEWATCH_WARP_REDUCTION(warp_min, value < other ? value : other, "min.u32")
SCALEWATCH_WARP_REDUCTION(warp_max, value > other ? value : other, "max.u32")
#undef SCALEWATCH_WARP_REDUCTION

// --- Memory ---

struct Words {
  U32 word[4];
};

// 16 bytes at an address that is a multiple of 16, of memory that nobody writes during the launch; not kept in the first-level
// cache. Words in the order of memory.
SCALEWATCH_DEVICE Words load_vector(U64 address) {
  Words v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
      : "l"(address));
  return v;
}
// A T at an address that suits it.
template <class T>
SCALEWATCH_DEVICE T load(U64 address) {
  return *reinterpret_cast<const T*>(address);
}
template <class T>
SCALEWATCH_DEVICE void store(U64 address, const T& value) {
  *reinterpret_cast<T*>(address) = value;
}
// 16 bytes that another block may have written in this launch, before a device_fence and a ticket.
SCALEWATCH_DEVICE Words load_fresh(U64 address) {
  Words v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address)
               : "memory");
  return v;
}
// What this thread wrote before is seen by the whole device before what it writes after.
SCALEWATCH_DEVICE void device_fence() {
  __threadfence();
}
// Adds 1 to the U32 in device memory, or sets it to 0 when it is `last`; gives the old value.
SCALEWATCH_DEVICE U32 take_ticket(U64 address, U32 last) {
  return atomicInc(reinterpret_cast<U32*>(address), last);
}
// Atomic additions to shared and to device memory.
SCALEWATCH_DEVICE void add_shared(U32& counter, U32 value) {
  atomicAdd(&counter, value);
}
SCALEWATCH_DEVICE void add_global(U64 address, U64 value) {
  atomicAdd(reinterpret_cast<U64*>(address), value);
}

// --- Bits ---

SCALEWATCH_DEVICE float bits_to_float(U32 bits) {
  return __uint_as_float(bits);
}
SCALEWATCH_DEVICE U32 float_to_bits(float value) {
  return __float_as_uint(value);
}
SCALEWATCH_DEVICE double bits_to_double(U64 bits) {
  return __longlong_as_double(static_cast<I64>(bits));
}
SCALEWATCH_DEVICE U64 double_to_bits(double value) {
  return static_cast<U64>(__double_as_longlong(value));
}
// Number of set bits.
SCALEWATCH_DEVICE U32 population(U32 word) {
  return static_cast<U32>(__popc(word));
}
// Position of the highest set bit, plus 1; 0 for 0.
SCALEWATCH_DEVICE U32 bit_width(U64 word) {
  return 64U - static_cast<U32>(__clzll(static_cast<I64>(word)));
}
// Upper half of a 128-bit product.
SCALEWATCH_DEVICE U64 multiply_high(U64 a, U64 b) {
  return __umul64hi(a, b);
}
// Bytes 0 to 3 are those of `word`, bytes 4 to 7 are 0: byte i of the result is the one that hex digit i of `select` names.
SCALEWATCH_DEVICE U32 permute_bytes(U32 word, U32 select) {
  return __byte_perm(word, 0, select);
}

// --- Arithmetic. Subnormals are kept; a product and a sum are fused only here ---

SCALEWATCH_DEVICE float fused_multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
// The other value where one is NaN. Which zero of a +0 and a -0 is not defined.
SCALEWATCH_DEVICE float min_float(float a, float b) {
  return fminf(a, b);
}
SCALEWATCH_DEVICE float max_float(float a, float b) {
  return fmaxf(a, b);
}

// --- Packed fp16 ---

// Value of the lower and the upper half.
SCALEWATCH_DEVICE float low_half(U32 word) {
  float value;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(value) : "r"(word));
  return value;
}
SCALEWATCH_DEVICE float high_half(U32 word) {
  float value;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "r"(word));
  return value;
}
// Bits of an fp16 whose value is that of a float.
SCALEWATCH_DEVICE U32 half_bits(float value) {
  U16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// Smaller and larger values, half by half; the other one where one is NaN, NaN where both are.
SCALEWATCH_DEVICE U32 min_halves(U32 a, U32 b) {
#if __CUDA_ARCH__ >= 800
  U32 result;
  asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return half_bits(fminf(low_half(a), low_half(b))) | half_bits(fminf(high_half(a), high_half(b))) << 16;
#endif
}
SCALEWATCH_DEVICE U32 max_halves(U32 a, U32 b) {
#if __CUDA_ARCH__ >= 800
  U32 result;
  asm("max.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return half_bits(fmaxf(low_half(a), low_half(b))) | half_bits(fmaxf(high_half(a), high_half(b))) << 16;
#endif
}

// A tally counts halves, at most 256 each of the lower and the upper ones. Zero is 0; tally_total gives the count.
using Tally = U32;
// Counts the halves of `word` whose magnitude is below that of `cut` (a positive finite number or infinity); NaN never is.
SCALEWATCH_DEVICE Tally tally_halves_below(Tally tally, U32 word, U32 cut) {
  Tally result;
  asm("{.reg .b32 m; abs.f16x2 m, %1; set.lt.f16x2.f16x2 m, m, %2; add.f16x2 %0, %3, m;}"
      : "=r"(result)
      : "r"(word), "r"(cut), "r"(tally));
  return result;
}
SCALEWATCH_DEVICE U32 total_of_halves(Tally tally) {
  return static_cast<U32>(low_half(tally) + high_half(tally));
}

// --- Packed bf16 ---

SCALEWATCH_DEVICE float low_bfloat(U32 word) {
  return bits_to_float(word << 16);
}
SCALEWATCH_DEVICE float high_bfloat(U32 word) {
  return bits_to_float(word & 0xFFFF0000U);
}
// As min_halves and max_halves.
SCALEWATCH_DEVICE U32 min_bfloats(U32 a, U32 b) {
#if __CUDA_ARCH__ >= 800
  U32 result;
  asm("min.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return float_to_bits(fminf(low_bfloat(a), low_bfloat(b))) >> 16 |
         (float_to_bits(fminf(high_bfloat(a), high_bfloat(b))) & 0xFFFF0000U);
#endif
}
SCALEWATCH_DEVICE U32 max_bfloats(U32 a, U32 b) {
#if __CUDA_ARCH__ >= 800
  U32 result;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return float_to_bits(fmaxf(low_bfloat(a), low_bfloat(b))) >> 16 |
         (float_to_bits(fmaxf(high_bfloat(a), high_bfloat(b))) & 0xFFFF0000U);
#endif
}
// As tally_halves_below, for finite values.
SCALEWATCH_DEVICE Tally tally_bfloats_below(Tally tally, U32 word, U32 cut) {
#if __CUDA_ARCH__ >= 900
  Tally result;
  asm("{.reg .b32 m; abs.bf16x2 m, %1; set.lt.bf16x2.bf16x2 m, m, %2; add.bf16x2 %0, %3, m;}"
      : "=r"(result)
      : "r"(word), "r"(cut), "r"(tally));
  return result;
#else
  // A half's highest bit stays set unless the subtraction borrows from it.
  return tally + ((~((word | 0x80008000U) - cut) & 0x80008000U) >> 15);
#endif
}
SCALEWATCH_DEVICE U32 total_of_bfloats(Tally tally) {
#if __CUDA_ARCH__ >= 900
  return static_cast<U32>(low_bfloat(tally) + high_bfloat(tally));
#else
  return (tally & 0xFFFFU) + (tally >> 16);
#endif
}

}  // namespace scalewatch::device

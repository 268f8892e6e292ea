// How each dtype's elements become floats. Included once per instruction set.
#if defined(SCALEWATCH_CUDA_CPU_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
#undef SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
#else
#define SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "cuda/cpu/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace scalewatch::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A format's Bits are the signed integers that its elements' bits are compared as. Sums are right in float (fp64: in plain
// double) when the largest magnitude's bits of a block are in [kSumFrom, kSumBelow).
//
// floats() gives the elements of a row (kChains of them) that belong to the consecutive chains from `chain`, as many as the
// vector has lanes. It is right for finite elements; others give NaN or at least kNonFinite. Which element belongs to which
// chain is the same on every instruction set: narrow formats sort even elements before odd ones, which costs no shuffle.
struct Fp64 {
  using Bits = std::int64_t;
  static constexpr Bits kSumFrom = 0;
  static constexpr Bits kSumBelow = Bits{1023 + 480} << 52;  // squares and their sum stay in range
};

struct Fp32 {
  using Bits = std::int32_t;
  static constexpr Bits kSumFrom = Bits{127 - 40} << 23;   // squares that float loses are under 2^-46 of the largest
  static constexpr Bits kSumBelow = Bits{127 + 60} << 23;  // squares and the sum of a chain's 64 stay in range
  static constexpr float kNonFinite = HUGE_VALF;
  static constexpr bool kExactSquares = false;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> floats(DF df, const Bits* row, std::size_t chain) {
    const hn::RebindToSigned<DF> d;
    return hn::BitCast(df, hn::LoadU(d, row + chain));
  }
};

struct Fp16 {
  using Bits = std::int16_t;
  static constexpr Bits kSumFrom = 0;  // squares of fp16 are normal floats
  static constexpr Bits kSumBelow = 0x7C00;
  static constexpr float kNonFinite = 0x1p16F;
  static constexpr bool kExactSquares = true;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> floats(DF df, const Bits* row, std::size_t chain) {
    const hn::Rebind<std::int16_t, DF> d;
    const hn::Rebind<hwy::float16_t, DF> dh;
    return hn::PromoteTo(df, hn::BitCast(dh, hn::LoadU(d, row + chain)));
  }
};

// The upper half of a float.
struct Bf16 {
  using Bits = std::int16_t;
  static constexpr Bits kSumFrom = (127 - 40) << 7;  // as fp32
  static constexpr Bits kSumBelow = (127 + 60) << 7;
  static constexpr float kNonFinite = HUGE_VALF;
  static constexpr bool kExactSquares = false;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> floats(DF df, const Bits* row, std::size_t chain) {
    const hn::RebindToUnsigned<DF> d;
    const hn::Repartition<std::int16_t, DF> narrow;
    const bool odd = chain >= kChains / 2;
    const auto pairs = hn::BitCast(d, hn::LoadU(narrow, row + 2 * (chain % (kChains / 2))));
    return hn::BitCast(df, odd ? hn::And(pairs, hn::Set(d, 0xFFFF0000U)) : hn::ShiftLeft<16>(pairs));
  }
};

// 16-bit lanes whose upper bytes are elements of a row of bytes, the lower ones 0.
template <class D>
HWY_INLINE hn::VFromD<D> upper_bytes(D d, const std::int8_t* row, std::size_t chain) {
  const hn::Repartition<std::int8_t, D> narrow;
  const bool odd = chain >= kChains / 2;
  const auto pairs = hn::BitCast(d, hn::LoadU(narrow, row + 2 * (chain % (kChains / 2))));
  return odd ? hn::And(pairs, hn::Set(d, static_cast<std::int16_t>(0xFF00))) : hn::ShiftLeft<8>(pairs);
}

// The upper byte of an fp16.
struct E5m2 {
  using Bits = std::int8_t;
  static constexpr Bits kSumFrom = 0;
  static constexpr Bits kSumBelow = 0x7C;
  static constexpr float kNonFinite = 0x1p16F;
  static constexpr bool kExactSquares = true;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> floats(DF df, const Bits* row, std::size_t chain) {
    const hn::Rebind<std::int16_t, DF> d;
    const hn::Rebind<hwy::float16_t, DF> dh;
    return hn::PromoteTo(df, hn::BitCast(dh, upper_bytes(d, row, chain)));
  }
};

// Gives 2^-8 times the value: an fp16 with another exponent bias, subnormals included.
struct E4m3fn {
  using Bits = std::int8_t;
  static constexpr Bits kSumFrom = 0;
  static constexpr Bits kSumBelow = 0x7F;
  static constexpr float kNonFinite = 0x1.EP0F;
  static constexpr bool kExactSquares = true;

  template <class DF>
  static HWY_INLINE hn::VFromD<DF> floats(DF df, const Bits* row, std::size_t chain) {
    const hn::Rebind<std::int16_t, DF> d;
    const hn::Rebind<hwy::float16_t, DF> dh;
    const auto sign_twice = hn::ShiftRight<1>(upper_bytes(d, row, chain));
    return hn::PromoteTo(df, hn::BitCast(dh, hn::And(sign_twice, hn::Set(d, static_cast<std::int16_t>(0xBFFF)))));
  }
};

}  // namespace scalewatch::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
